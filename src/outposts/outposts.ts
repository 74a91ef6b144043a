/** The queue port: what the rest of dvo needs from Devin's side. The wire stays behind it. */
import type { Secret } from '../lib/secret.ts';
import type { Call } from '../lib/deadline.ts';
import type { QueueEntry } from '../session/session.ts';
import { DvoError, type ErrorDetails } from '../lib/errors.ts';

/** What a won claim gives: the session is ours until `deadline` (milliseconds since the epoch). */
export interface ClaimGrant {
  readonly entry: QueueEntry;
  readonly deadline: number;
  readonly connectToken: Secret;
  /** Absent when Devin sent none; then the configured fallback is used. */
  readonly gatewayUrl?: string;
}

/**
 * held: the queue refuses to claim it anew because it is ours already (a lost answer, or a queue that does not renew);
 * no token comes with it · lost: another acceptor holds it · absent: the entry has left the queue. All are normal.
 */
export type ClaimResult =
  | { readonly kind: 'claimed'; readonly grant: ClaimGrant }
  | { readonly kind: 'held'; readonly entry: QueueEntry }
  | { readonly kind: 'lost' }
  | { readonly kind: 'absent' };

export interface QueuePage {
  readonly entries: readonly QueueEntry[];
  /** Resume point for a watch, or the next page. */
  readonly cursor?: string;
  readonly hasNext: boolean;
  /** Rows that could not be read, already reported. */
  readonly skipped: number;
}

export type QueueEvent =
  | { readonly kind: 'changed'; readonly entry: QueueEntry; readonly cursor?: string }
  | {
      readonly kind: 'deleted';
      readonly sessionId: string;
      readonly entry?: QueueEntry;
      readonly cursor?: string;
    }
  /** An event that could not be understood; its cursor is kept when it had one. */
  | { readonly kind: 'skipped'; readonly reason: string; readonly cursor?: string }
  /** A comment line: the stream is alive. */
  | { readonly kind: 'keepalive' };

export interface OutpostsApi {
  /** Under which every claim is made. */
  readonly acceptorId: string;
  list(query: { readonly phase?: 'pending'; readonly cursor?: string }, call: Call): Promise<QueuePage>;
  /**
   * Opens the watch and yields its events until the server ends the stream, which is routine. `call.timeoutMs`
   * bounds the opening only. Ending the iteration or aborting the signal closes the connection.
   * @throws DvoError `api` when it cannot be opened or breaks off
   */
  watch(cursor: string | undefined, call: Call): AsyncIterable<QueueEvent>;
  /** `undefined`: the entry is not in the queue. */
  get(sessionId: string, call: Call): Promise<QueueEntry | undefined>;
  /** Claims, or renews a claim of ours. A lost answer is recovered: a claim that is ours is never `lost`. */
  claim(sessionId: string, call: Call): Promise<ClaimResult>;
  /** Succeeds when it is not ours or gone already. */
  release(sessionId: string, call: Call): Promise<void>;
}

/**
 * Devin's answer was not a success. `status` is absent when no answer of Devin's arrived: none at all, or a page that
 * something in between wrote.
 */
export class ApiError extends DvoError {
  override readonly name = 'ApiError';
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    details: ErrorDetails & { readonly status?: number; readonly retryAfterMs?: number } = {},
  ) {
    super('api', message, details);
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }

  /** 401 or 403: the token is wrong, rotated, or lacks the scope. */
  get unauthorized(): boolean {
    return this.status === 401 || this.status === 403;
  }
}
