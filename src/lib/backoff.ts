/** Waits between tries. Pure: the caller hands in the randomness. */

export interface BackoffPolicy {
  readonly firstMs: number;
  readonly maxMs: number;
  readonly factor: number;
}

/** kube-rs's DefaultBackoff: 0.8 s to 30 s, doubling. */
export const WATCH_BACKOFF: BackoffPolicy = { firstMs: 800, maxMs: 30_000, factor: 2 };

/**
 * The wait before try number `failures + 1`, in milliseconds. `random` in [0, 1) spreads it over the upper half
 * of the interval, so that many clients that failed together do not come back together.
 */
export function backoffMs(policy: BackoffPolicy, failures: number, random: number): number {
  const exponent = Math.min(Math.max(0, failures - 1), 40);
  const ceiling = Math.min(policy.maxMs, policy.firstMs * policy.factor ** exponent);
  return Math.round(ceiling * (0.5 + random / 2));
}
