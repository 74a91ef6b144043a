/** Waiting for what must come to be. */

export interface UntilOptions {
  readonly withinMs?: number;
  /** For the failure's text. */
  readonly what?: string;
}

/** Answers the first value that is neither false nor undefined; fails loudly when none comes in time. */
export async function until<T>(
  condition: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<Exclude<T, false | undefined>> {
  const { withinMs = 40_000, what = condition.toString() } = options;
  const endsAt = performance.now() + withinMs;
  for (;;) {
    const value = await condition();
    if (value !== false && value !== undefined) return value as Exclude<T, false | undefined>;
    if (performance.now() > endsAt) throw new Error(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
