/**
 * `npm run simulate -- --seed N` replays one seed and prints its history, made small when an invariant breaks (`--whole`:
 * as it was; `--day`: a hundred sessions; `--unattended`: without a person who gives orders). `--minutes M` runs fresh
 * seeds; `--from N --count C` runs those.
 */
import { dayOf, profileOf, worldOf } from './profile.ts';
import { run } from './run.ts';
import { shrink } from './shrink.ts';
import { Tally } from './tally.ts';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    minutes: { type: 'string' },
    from: { type: 'string' },
    count: { type: 'string' },
    whole: { type: 'boolean', default: false },
    day: { type: 'boolean', default: false },
    unattended: { type: 'boolean', default: false },
  },
});

async function replay(seed: number): Promise<number> {
  const profileFor = values.day ? dayOf : values.unattended ? worldOf : profileOf;
  const profile = profileFor(seed);
  let outcome = await run({ profile });
  console.log(JSON.stringify(profile, undefined, 1));
  if (outcome.violation !== undefined && !values.whole) {
    const small = await shrink({ profile }, outcome);
    console.log(`shrunk in ${small.runs} runs to users ${small.users.join(', ')} and faults:`);
    for (const id of small.faults) console.log(`  ${id}`);
    ({ outcome } = small);
  }
  for (const line of outcome.world.history.lines()) console.log(line);
  console.log(`seed ${seed}: ${outcome.violation ?? 'all invariants held'}`);
  return outcome.violation === undefined ? 0 : 1;
}

async function explore(): Promise<number> {
  const first = Number(values.from ?? Math.floor(Date.now() / 1_000) * 1_000);
  const count = Number(values.count ?? Number.POSITIVE_INFINITY);
  const endsAt = values.minutes === undefined ? Infinity : Date.now() + Number(values.minutes) * 60_000;
  const tally = new Tally();
  for (let seed = first; seed < first + count && Date.now() < endsAt; seed += 1) {
    const outcome = await run({ profile: profileOf(seed) });
    tally.add(seed, outcome);
    if (outcome.violation !== undefined) console.log(`seed ${seed}: ${outcome.violation}`);
  }
  console.log(tally.report());
  return tally.failed.length === 0 ? 0 : 1;
}

process.exitCode = values.seed === undefined ? await explore() : await replay(Number(values.seed));
