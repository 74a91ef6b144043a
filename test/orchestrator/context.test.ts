import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/lib/log.ts';
import { StepContext, type Deps, type Lane } from '../../src/orchestrator/context.ts';
import { adopt } from '../../src/orchestrator/steps/claim.ts';
import type { Logger } from '../../src/lib/log.ts';
import { NO_FACTS, type SessionRecord } from '../../src/session/session.ts';
import { record } from '../session/view.ts';

describe('one attempt’s grip on its session', () => {
  function setup() {
    let saved: SessionRecord | undefined = record('serving');
    const lane: Lane = {
      sessionId: 'devin-1',
      name: 'dvo-1',
      facts: NO_FACTS,
      sandbox: undefined,
      turn: 1,
      foundAt: undefined,
      failed: undefined,
    };
    const index = {
      get: () => saved,
      put: (_: string, next: SessionRecord) => {
        saved = next;
      },
      delete: () => {
        saved = undefined;
      },
      commit: async () => undefined,
    };
    const deps = { index, clock: { now: () => 7 } } as unknown as Deps;
    const cut = new AbortController();
    const ctx = new StepContext(deps, lane, silentLogger, cut.signal);
    return { ctx, lane, cut, saved: () => saved };
  }

  it.each(['superseded', 'cut off'] as const)(
    'C2: an attempt that was %s writes nothing and calls nothing',
    async (how) => {
      const { ctx, lane, cut, saved } = setup();
      ctx.amend({ set: { failures: 1 } });
      if (how === 'superseded') lane.turn += 1;
      else cut.abort();
      const before = saved();
      expect(() => ctx.amend({ set: { failures: 9 } })).toThrow('given up');
      expect(() => ctx.facts({ sandbox: 'none' })).toThrow('given up');
      expect(() => ctx.call(1_000)).toThrow('given up');
      await expect(ctx.save({ set: { failures: 9 } })).rejects.toMatchObject({ code: 'stale' });
      await expect(ctx.remove()).rejects.toMatchObject({ code: 'stale' });
      expect(saved()).toBe(before);
      expect(lane.facts).toBe(NO_FACTS);
    },
  );
});

describe('a claim that we did not make', () => {
  it('C4: is not served in mid-life, where it would be a second remote, and is said loudly', async () => {
    const errors: string[] = [];
    const puts: unknown[] = [];
    const log: Logger = { ...silentLogger, error: (message) => void errors.push(message) };
    const lane: Lane = {
      sessionId: 'devin-1',
      name: 'dvo-1',
      facts: NO_FACTS,
      sandbox: undefined,
      turn: 1,
      foundAt: undefined,
      failed: undefined,
    };
    const setup = (syncedAt: number) => {
      const deps = {
        clock: { now: () => 100_000 },
        syncedAt: () => syncedAt,
        queue: {
          look: async () => ({ gist: 'held', looks: 1 }),
          sighting: () => ({ gist: 'held', looks: 1 }),
        },
        index: {
          get: () => undefined,
          put: (...put: unknown[]) => puts.push(put),
          commit: async () => undefined,
        },
        provider: { list: async () => [] },
        gate: { used: 0, max: 5, free: 5 },
        identity: { acceptorId: 'me', acceptorTag: 'tag' },
        limits: { apiMs: 1, platformMs: 1 },
      } as unknown as Deps;
      return new StepContext(deps, lane, log, new AbortController().signal);
    };
    expect(await adopt(setup(0))).toEqual({ again: 160_000 });
    expect(errors.join()).toContain('ACCEPTOR_ID');
    expect(puts).toEqual([]);
    expect(await adopt(setup(90_000))).toBeUndefined();
    expect(puts).toHaveLength(1);
  });
});
