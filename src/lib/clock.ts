/**
 * Time, as a port. Everything in dvo that waits or asks the time takes a `Clock`, so that tests and the
 * simulation own time. This file alone may touch the global timers.
 */
import { setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Wall-clock milliseconds since the epoch. */
  now(): number;
  /**
   * Resolves after `ms`. Rejects with `signal.reason` as soon as the signal aborts (also when it already has).
   * A pending sleep keeps the process alive.
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Node's timers fire at once for anything above 2^31-1 ms; such sleeps are cut into pieces. */
const LONGEST_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  async sleep(ms, signal) {
    let left = Math.max(0, ms);
    do {
      const piece = Math.min(left, LONGEST_TIMER_MS);
      try {
        await delay(piece, undefined, signal === undefined ? {} : { signal });
      } catch (error) {
        throw signal?.aborted === true ? signal.reason : error;
      }
      left -= piece;
    } while (left > 0);
  },
};

/** Randomness, as a port: `next()` is in [0, 1); `id()` is a fresh, unguessable lower-case hex string. */
export interface Random {
  next(): number;
  id(): string;
}

export const systemRandom: Random = {
  next: () => Math.random(),
  id: () => crypto.randomUUID().replaceAll('-', ''),
};
