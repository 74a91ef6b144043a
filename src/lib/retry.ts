/** The one place that repeats failing work: classify, bound, wait. */
import { backoffMs, type BackoffPolicy } from './backoff.ts';
import type { Clock, Random } from './clock.ts';

/** Whether an error is worth another try, and how long its sender asked to be left alone (milliseconds). */
export type Verdict = { readonly retry: false } | { readonly retry: true; readonly afterMs?: number };

export interface RetryOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly backoff: BackoffPolicy;
  readonly tries: number;
  /** A hint longer than this is cut: a server's mistake must not park us for a day. Milliseconds. */
  readonly longestHintMs: number;
  readonly classify: (error: unknown) => Verdict;
  readonly onRetry?: (error: unknown, waitMs: number) => void;
}

/** Runs `work` up to `tries` times. Throws the last error unchanged, or the signal's reason while waiting. */
export async function retry<T>(options: RetryOptions, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work();
    } catch (error) {
      const verdict = options.classify(error);
      if (!verdict.retry || failures >= options.tries || options.signal.aborted) throw error;
      const own = backoffMs(options.backoff, failures, options.random.next());
      const waitMs = Math.max(own, Math.min(verdict.afterMs ?? 0, options.longestHintMs));
      options.onRetry?.(error, waitMs);
      await options.clock.sleep(waitMs, options.signal);
    }
  }
}
