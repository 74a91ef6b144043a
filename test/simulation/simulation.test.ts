/** A fixed set of worlds. Each must keep every invariant, and together they must reach what can be reached. */
import { afterAll, describe, expect, it } from 'vitest';
import { dayOf, profileOf } from './profile.ts';
import { run } from './run.ts';
import { Tally } from './tally.ts';

// The last one for a row of the state table that the others miss.
const SEEDS = [...Array.from({ length: 160 }, (_, index) => index + 1), 1133];
const GROUP = 20;

describe('the simulation', () => {
  const tally = new Tally();
  afterAll(() => console.log(tally.figures()));

  for (let from = 0; from < SEEDS.length; from += GROUP) {
    const seeds = SEEDS.slice(from, from + GROUP);
    it(`keeps every invariant in the worlds of seeds ${seeds[0]} to ${seeds.at(-1)}`, async () => {
      for (const seed of seeds) {
        const outcome = await run({ profile: profileOf(seed) });
        tally.add(seed, outcome);
        expect(outcome.violation, `npm run simulate -- --seed ${seed}`).toBeUndefined();
      }
    });
  }

  it('serves a hundred sessions through a virtual day', async () => {
    const outcome = await run({ profile: dayOf(1) });
    tally.add(0, outcome);
    expect(outcome.violation).toBeUndefined();
  }, 60_000);

  it('reaches every row of the state table that can be reached', () => {
    expect(tally.coverage.missed().join('; ')).toBe('');
  });

  it('replays a seed identically', async () => {
    const first = await run({ profile: profileOf(8) });
    const second = await run({ profile: profileOf(8) });
    expect(second.world.history.lines()).toEqual(first.world.history.lines());
    expect(first.world.faults.fired.length).toBeGreaterThan(0);
  });
});
