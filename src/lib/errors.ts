/**
 * The errors that dvo throws. Callers switch on `code`; the message is for people. Normal outcomes (a claim
 * that somebody else won, an archive that is not ready yet) are results, never errors.
 */
export type ErrorCode =
  | 'config' // the operator's settings are wrong; the message lists every problem
  | 'deadline' // our own limit on a call passed; what the call did is unknown
  | 'aborted' // we were asked to stop
  | 'api' // Devin answered something other than success
  | 'provider' // the sandbox platform failed; see ProviderError
  | 'remote' // a script in a sandbox failed or could not be understood
  | 'distribution' // devin-remote is not published as it should be: no such build, or no checksum of it
  | 'unreachable' // the host that publishes devin-remote gives no answer
  | 'state' // STATE_DIR cannot be read or written
  | 'locked' // another daemon holds STATE_DIR
  | 'stale' // an attempt that has been superseded tried to act
  | 'internal'; // a bug of ours

export interface ErrorDetails {
  /** What was being done, in the words of a log line: "create sandbox". */
  readonly operation?: string;
  readonly sessionId?: string;
  readonly cause?: unknown;
}

export class DvoError extends Error {
  override readonly name: string = 'DvoError';
  readonly code: ErrorCode;
  readonly operation: string | undefined;
  readonly sessionId: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? {} : { cause: details.cause });
    this.code = code;
    this.operation = details.operation;
    this.sessionId = details.sessionId;
  }
}

/** Whatever was thrown, as an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
}

/** The `code` of a Node system error such as `ENOSPC`, or undefined. */
export function systemCode(thrown: unknown): string | undefined {
  return thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string'
    ? thrown.code
    : undefined;
}

/** One line that names an error and its causes, outermost first; for log fields and `lastError`. */
export function describeError(thrown: unknown): string {
  const parts: string[] = [];
  let current: unknown = thrown;
  // Five causes deep is more than any library here nests; the bound keeps a cyclic cause from looping.
  for (let depth = 0; current !== undefined && depth < 5; depth += 1) {
    const error = toError(current);
    const message = messageOf(error);
    if (message !== '' && !parts.some((part) => part.includes(message))) parts.push(message);
    current = error.cause;
  }
  return parts.join(': ');
}

/** Node tells of a host with several addresses, none of which answers, in an error without words around one for each. */
function messageOf(error: Error): string {
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message;
  const inner = new Set(error.errors.map((one: unknown) => toError(one).message));
  return [...inner].join(', ') || (systemCode(error) ?? '');
}
