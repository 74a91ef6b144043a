import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { DvoError } from '../../src/lib/errors.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { noTracer } from '../../src/lib/tracer.ts';
import type { Deps } from '../../src/orchestrator/context.ts';
import { Reconciler } from '../../src/orchestrator/reconciler.ts';
import { ApiError } from '../../src/outposts/outposts.ts';
import { ProviderError } from '../../src/sandboxes/provider.ts';
import type { SessionRecord } from '../../src/session/session.ts';
import { record } from '../session/view.ts';

describe('a step that fails', () => {
  /** How many failures are held against a session whose sandbox is asked for in vain. */
  async function heldAgainstIt(error: Error, now: number): Promise<number | undefined> {
    let known: SessionRecord = record('provisioning', { stageSince: 0 });
    const deps = {
      clock: { ...systemClock, now: () => now },
      random: { next: () => 0.5 },
      log: silentLogger,
      recorder: { step: () => undefined },
      tracer: noTracer,
      gate: { pause: () => undefined, noteRefusedKey: () => undefined },
      index: { get: () => known, put: (_: string, next: SessionRecord) => (known = next) },
      identity: { nameOf: () => 'dvo-1', acceptorId: 'me' },
      queue: { sighting: () => ({ gist: 'held', looks: 1 }), look: () => Promise.reject(error) },
      limits: { apiMs: 1 },
      rules: { probeEveryMs: Infinity },
    } as unknown as Deps;
    const look = () => ({ kind: 'step', step: { do: 'ensure-sandbox' } }) as const;
    await new Reconciler(deps, new AbortController().signal, look).pass('devin-1');
    return known.failures;
  }

  it.each([
    new ProviderError('ambiguous', 'connection refused'),
    new ProviderError('exhausted', 'no capacity'),
    new DvoError('deadline', 'no answer within 30000 ms'),
    new DvoError('unreachable', 'static host refuses'),
    new ApiError('not JSON', { status: 200 }),
    new ApiError('moved', { status: 302 }),
    new ApiError('bad gateway', { status: 502 }),
  ])('Q8, P3: is not the fault of the session while it may pass: $message', async (error) => {
    expect(await heldAgainstIt(error, 60_000)).toBe(0);
    expect(await heldAgainstIt(error, 300_000)).toBe(1);
  });

  it.each([
    new ProviderError('invalid', 'no such size'),
    new DvoError('remote', 'git is not installed'),
    new DvoError('distribution', 'no such build'),
    new ApiError('unprocessable', { status: 422 }),
  ])('P3: is a failure of the session when it will not pass: $message', async (error) => {
    expect(await heldAgainstIt(error, 60_000)).toBe(1);
  });

  /** When a session whose looks at the queue fail like this is looked at again. */
  async function againAfter(error: Error): Promise<number | undefined> {
    const deps = {
      clock: { ...systemClock, now: () => 0 },
      random: { next: () => 0.5 },
      log: silentLogger,
      recorder: { step: () => undefined },
      tracer: noTracer,
      gate: { pause: () => undefined, noteRefusedKey: () => undefined },
      index: { get: () => record('serving'), put: () => undefined },
      identity: { nameOf: () => 'dvo-1', acceptorId: 'me' },
      queue: { sighting: () => ({ gist: 'held', looks: 1 }), look: () => Promise.reject(error) },
      limits: { apiMs: 1 },
      rules: { probeEveryMs: Infinity },
    } as unknown as Deps;
    const look = () => ({ kind: 'step', step: { do: 'look' } }) as const;
    return await new Reconciler(deps, new AbortController().signal, look).pass('devin-1');
  }

  it('Q9: is tried again when the server asked for it', async () => {
    expect(await againAfter(new ApiError('busy', { status: 429, retryAfterMs: 120_000 }))).toBe(120_000);
  });

  it('Q9: is not parked for years by a server that asks for it', async () => {
    const years = 999_999_999_000;
    expect(await againAfter(new ApiError('busy', { status: 429, retryAfterMs: years }))).toBe(300_000);
    expect(await againAfter(new ProviderError('exhausted', 'busy', { retryAfterMs: years }))).toBe(300_000);
  });
});
