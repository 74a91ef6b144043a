/**
 * `npm run kill-matrix`: every point × every flow. `-- NAME…` plays only the flows of these names, and with further
 * arguments that hold a colon only these points of them.
 */
import { FLOWS } from './flows.ts';
import { playFlows } from './matrix.ts';

const named = process.argv.slice(2);
const names = named.filter((name) => !name.includes(':'));
const places = named.filter((name) => name.includes(':'));
const flows = FLOWS.filter(({ name }) => names.length === 0 || names.includes(name));
const choose = (all: readonly string[]): readonly string[] =>
  places.length === 0 ? all : all.filter((point) => places.includes(point));
let points = 0;
let failures = 0;
await playFlows(flows, choose, (row) => {
  points += row.points.length;
  failures += row.failures.length;
  const figures = `${String(row.points.length).padStart(3)} points ${row.seconds.toFixed(0).padStart(5)} s`;
  console.log(`${row.flow.padEnd(18)} ${figures}  ${row.failures.length === 0 ? 'good' : 'BROKEN'}`);
  for (const failure of row.failures) console.log(failure.replaceAll(/^/gm, '    '));
});
console.log(`${flows.length} flows, killed at ${points} points: ${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
