/** The harness proves itself: daemons that are broken on purpose, each of which it must catch. */
import { describe, expect, it } from 'vitest';
import { BROKEN } from './broken-variants.ts';
import { worldOf } from './profile.ts';
import { run } from './run.ts';

/** Worlds in which a broken daemon must show itself. */
const MOST_SEEDS = 400;

describe('a broken daemon is caught when it', () => {
  for (const { variant, breaks } of BROKEN) {
    it(variant.name, async () => {
      for (let seed = 1; seed <= MOST_SEEDS; seed += 1) {
        const { violation } = await run({ profile: worldOf(seed), variant });
        if (violation === undefined) continue;
        console.log(`${variant.name}: caught after ${seed} seeds: ${violation}`);
        expect(breaks).toContain(violation.split(':', 1)[0]);
        return;
      }
      expect.unreachable(`not caught in ${MOST_SEEDS} seeds`);
    });
  }
});
