/** Bounds on waiting for things that may hang or may ignore their signal. */
import type { Clock } from './clock.ts';
import { DvoError } from './errors.ts';

/** How long a call may take, and what ends it early. Every call to the outside carries one. */
export interface Call {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** For a call that nothing but its limit ends. */
export function unstopped(timeoutMs: number): Call {
  return { timeoutMs, signal: new AbortController().signal };
}

/**
 * Runs `work` with a signal that aborts when `call.signal` does or after `call.timeoutMs`. Settles by then
 * even if `work` ignores its signal; a late failure of abandoned work is observed, so it cannot end the process.
 *
 * @throws DvoError `deadline` when time is up; `aborted` (cause: the signal's reason) when the caller gave up,
 *   also when it had already given up, in which case `work` never starts.
 */
export async function withDeadline<T>(
  clock: Clock,
  operation: string,
  call: Call,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (call.signal.aborted) throw aborted(operation, call.signal);
  const inner = new AbortController();
  const giveUp = (): void => inner.abort(aborted(operation, call.signal));
  call.signal.addEventListener('abort', giveUp, { once: true });
  const timer = new AbortController();
  const expired = clock.sleep(call.timeoutMs, timer.signal).then(
    () =>
      inner.abort(
        new DvoError('deadline', `${operation}: no answer within ${call.timeoutMs} ms`, { operation }),
      ),
    () => undefined,
  );
  try {
    return await Promise.race([work(inner.signal), whenAborted(inner.signal)]);
  } catch (error) {
    // Libraries surface an abort in their own words; ours says which limit it was.
    throw inner.signal.aborted ? inner.signal.reason : error;
  } finally {
    call.signal.removeEventListener('abort', giveUp);
    timer.abort();
    await expired;
  }
}

/** Rejects with the signal's reason once it aborts; never resolves. */
function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

function aborted(operation: string, signal: AbortSignal): DvoError {
  return new DvoError('aborted', `${operation}: stopped`, { operation, cause: signal.reason });
}
