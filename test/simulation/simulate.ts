import { profileOf } from './profile.ts';
import { run } from './run.ts';

const seed = Number(process.argv[2] ?? 1);
const count = Number(process.argv[3] ?? 1);
for (let s = seed; s < seed + count; s += 1) {
  const t = performance.now();
  const { world, violation, events } = await run({ profile: profileOf(s) });
  console.log(s, violation ?? 'ok', events, 'events', Math.round(world.scheduler.elapsed / 60000), 'min', world.deaths, 'deaths', world.faults.fired.length, 'faults', Math.round(performance.now() - t), 'ms');
  if (count === 1) console.log(world.history.lines().slice(-Number(process.argv[4] ?? 200)).join('\n'));
}
