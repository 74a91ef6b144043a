import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs, WATCH_BACKOFF } from '../../src/lib/backoff.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { withDeadline } from '../../src/lib/deadline.ts';
import { describeError } from '../../src/lib/errors.ts';
import { createLogger } from '../../src/lib/log.ts';
import { retry } from '../../src/lib/retry.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';

const never = new AbortController().signal;

describe('deadlines', () => {
  it('P5: settle by the limit though the work ignores its signal, and swallow its late failure', async () => {
    const late = Promise.withResolvers<never>();
    const call = withDeadline(systemClock, 'work', { timeoutMs: 20, signal: never }, () => late.promise);
    await expect(call).rejects.toMatchObject({ code: 'deadline', operation: 'work' });
    late.reject(new Error('too late to matter'));
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('never start what was given up before, and pass an abort on', async () => {
    let started = false;
    const work = async (): Promise<void> => {
      started = true;
    };
    const aborted = { timeoutMs: 1_000, signal: AbortSignal.abort() };
    await expect(withDeadline(systemClock, 'work', aborted, work)).rejects.toMatchObject({ code: 'aborted' });
    expect(started).toBe(false);
    const caller = new AbortController();
    let inner: AbortSignal | undefined;
    const hanging = withDeadline(
      systemClock,
      'work',
      { timeoutMs: 60_000, signal: caller.signal },
      (signal) => {
        inner = signal;
        return new Promise<never>(() => undefined);
      },
    );
    caller.abort();
    await expect(hanging).rejects.toMatchObject({ code: 'aborted' });
    expect(inner?.aborted).toBe(true);
  });
});

describe('waits', () => {
  it('grow to the limit and stay within half of it and the whole', () => {
    fc.assert(
      fc.property(fc.nat(200), fc.double({ min: 0, max: 0.999, noNaN: true }), (failures, random) => {
        const wait = backoffMs(WATCH_BACKOFF, failures, random);
        const ceiling = Math.min(WATCH_BACKOFF.maxMs, WATCH_BACKOFF.firstMs * 2 ** Math.max(0, failures - 1));
        expect(wait).toBeGreaterThanOrEqual(Math.floor(ceiling / 2));
        expect(wait).toBeLessThanOrEqual(Math.ceil(ceiling));
      }),
    );
  });

  it.each([
    ['after its tries, with the last error', 40, 'failure 3', [40, 40]],
    ['at once when it is asked for a longer wait than is worth it', 51, 'failure 1', []],
  ])('end a retry %s', async (_, afterMs, failure, waited) => {
    const waits: number[] = [];
    let tries = 0;
    const work = retry(
      {
        clock: { now: () => 0, sleep: async (ms) => void waits.push(ms) },
        random: { next: () => 0, id: () => '' },
        signal: never,
        backoff: { firstMs: 10, maxMs: 100, factor: 2 },
        tries: 3,
        longestHintMs: 50,
        classify: () => ({ retry: true, afterMs }),
      },
      async () => {
        tries += 1;
        throw new Error(`failure ${tries}`);
      },
    );
    await expect(work).rejects.toThrow(failure);
    expect(waits).toEqual(waited);
  });
});

describe('secrets', () => {
  it('do not print, however they are printed', () => {
    const secret = new Secret('cog_top_secret');
    const shown = [
      String(secret),
      secret.toString(),
      JSON.stringify({ deep: [secret] }),
      inspect({ secret }),
      inspect(secret),
    ];
    for (const text of shown) expect(text).not.toContain('top_secret');
    expect(secret.reveal()).toBe('cog_top_secret');
  });

  it('D8: are scrubbed from log lines wherever they stand: fields, errors, nested', () => {
    const lines: string[] = [];
    const redactor = new Redactor();
    redactor.add('cog_top_secret');
    for (const format of ['json', 'pretty'] as const) {
      const log = createLogger({ level: 'debug', format, redactor, write: (line) => lines.push(line) });
      log
        .child({ token: 'cog_top_secret' })
        .warn('said cog_top_secret', { deep: { er: ['xcog_top_secretx'] } });
      log.error('failed', { error: new Error('no cog_top_secret') });
    }
    expect(lines).toHaveLength(4);
    expect(lines.join('')).not.toContain('top_secret');
    expect(lines.join('')).toContain('[redacted]');
  });

  it('are forgotten oldest first, so that memory is bounded', () => {
    const redactor = new Redactor(2);
    for (const secret of ['first-secret', 'second-secret', 'third-secret']) redactor.add(secret);
    expect(redactor.scrub('first-secret second-secret third-secret')).toBe(
      'first-secret [redacted] [redacted]',
    );
    redactor.add('abc');
    redactor.keep('abc');
    expect(redactor.scrub('abc')).toBe('abc');
  });

  it('that are configured outlast any number of those that pass', () => {
    const redactor = new Redactor();
    redactor.keep('configured-secret');
    for (let n = 0; n <= 4_000; n += 1) redactor.add(`token-${n}-end`);
    expect(redactor.scrub('configured-secret token-0-end token-4000-end')).toBe(
      '[redacted] token-0-end [redacted]',
    );
  });
});

describe('errors in words', () => {
  it('name their causes once, and end where causes go in a circle', () => {
    const inner = new Error('disk full');
    const outer = new Error('cannot save', { cause: inner });
    inner.cause = outer;
    expect(describeError(outer)).toBe('cannot save: disk full');
    expect(describeError('text')).toBe('text');
  });

  it('say why no address of a host answered', () => {
    const each = ['connect ECONNREFUSED ::1:9', 'connect ECONNREFUSED 127.0.0.1:9'].map(
      (one) => new Error(one),
    );
    const refused = Object.assign(new AggregateError(each), { code: 'ECONNREFUSED' });
    expect(describeError(new TypeError('fetch failed', { cause: refused }))).toBe(
      'fetch failed: connect ECONNREFUSED ::1:9, connect ECONNREFUSED 127.0.0.1:9',
    );
    const silent = Object.assign(new AggregateError([]), { code: 'ETIMEDOUT' });
    expect(describeError(silent)).toBe('ETIMEDOUT');
  });
});
