/** What a check is, and running a row of them. Checks are data; what they need comes in through `run`. */
import type { Clock } from '../../lib/clock.ts';
import { describeError } from '../../lib/errors.ts';

export type Finding =
  | { readonly state: 'pass'; readonly detail: string }
  /** `cause`: what is wrong. `fix`: what the person has to do. Both are sentences without a final dot. */
  | { readonly state: 'fail'; readonly cause: string; readonly fix: string }
  | { readonly state: 'skip'; readonly why: string };

export interface Check {
  readonly id: string;
  readonly title: string;
  /** Checks that must have passed before. */
  readonly needs?: readonly string[];
  /** Runs also when nothing else may run any more: it clears up. */
  readonly always?: true;
  /** A flag asked for it: all is not well when it was not run. */
  readonly asked?: boolean;
  /** Must not throw for what it is there to find; anything else that it throws is a failure in its own words. */
  readonly run: (signal: AbortSignal) => Promise<Finding>;
}

export interface Outcome {
  readonly id: string;
  readonly title: string;
  readonly asked: boolean;
  readonly tookMs: number;
  readonly finding: Finding;
}

export const pass = (detail: string): Finding => ({ state: 'pass', detail });
export const fail = (cause: string, fix: string): Finding => ({ state: 'fail', cause, fix });
export const skip = (why: string): Finding => ({ state: 'skip', why });

export interface RunOptions {
  readonly clock: Clock;
  /** Aborted: the person wants to stop. Only `always` checks run then. */
  readonly signal: AbortSignal;
  readonly onStart: (check: Check) => void;
  readonly onOutcome: (outcome: Outcome) => void;
}

/** Runs the checks in their order, those that can run. */
export async function runChecks(checks: readonly Check[], options: RunOptions): Promise<readonly Outcome[]> {
  const { clock, onStart, onOutcome } = options;
  const outcomes: Outcome[] = [];
  for (const check of checks) {
    const startedAt = clock.now();
    onStart(check);
    const finding = await findingOf(check, outcomes, options.signal);
    const { id, title, asked = false } = check;
    const outcome = { id, title, asked, tookMs: Math.max(0, clock.now() - startedAt), finding };
    outcomes.push(outcome);
    onOutcome(outcome);
  }
  return outcomes;
}

async function findingOf(check: Check, before: readonly Outcome[], signal: AbortSignal): Promise<Finding> {
  if (signal.aborted && check.always !== true) return skip('interrupted');
  const missing = check.needs?.find((need) =>
    before.some(({ id, finding }) => id === need && finding.state !== 'pass'),
  );
  if (missing !== undefined) {
    return skip(`needs “${before.find(({ id }) => id === missing)?.title ?? missing}”`);
  }
  try {
    return await check.run(signal);
  } catch (error) {
    if (signal.aborted && check.always !== true) return skip('interrupted');
    return fail(describeError(error), 'run it again; if it stays, this message is what to search for');
  }
}
