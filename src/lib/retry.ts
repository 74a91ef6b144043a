/** The one place that repeats failing work: classify, bound, wait. */
import { backoffMs, type BackoffPolicy } from './backoff.ts';
import type { Clock, Random } from './clock.ts';

/** Whether an error is worth another try, and how long its sender asked to be left alone (milliseconds). */
export type Verdict = { readonly retry: false } | { readonly retry: true; readonly afterMs?: number };

/** A server that asks to be left alone is obeyed this long, in milliseconds: its mistake must not park us for a day. */
export const LONGEST_HINT_MS = 300_000;

export interface RetryOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly backoff: BackoffPolicy;
  readonly tries: number;
  /** Who asks for a longer wait is not asked again here: the error goes to a caller who has the time. Milliseconds. */
  readonly longestHintMs: number;
  readonly classify: (error: unknown) => Verdict;
  readonly onRetry?: (error: unknown, waitMs: number) => void;
}

/**
 * Runs `work` up to `tries` times.
 * @throws the last error unchanged, or the signal's reason while waiting
 */
export async function retry<T>(options: RetryOptions, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const verdict = options.classify(error);
      if (!verdict.retry || failures >= options.tries || options.signal.aborted) throw error;
      const { afterMs = 0 } = verdict;
      if (afterMs > options.longestHintMs) throw error;
      const waitMs = Math.max(backoffMs(options.backoff, failures, options.random.next()), afterMs);
      options.onRetry?.(error, waitMs);
      await options.clock.sleep(waitMs, options.signal);
    }
  }
}
