/** The emulator's knobs. All can be changed while it runs. */

export interface Knobs {
  /** The bearer token that is accepted; anything else is answered 401. */
  token: string;
  claimLifeMs: number;
  keepaliveMs: number;
  /** The server ends a watch after this long; Devin does after five minutes. */
  watchLifeMs: number;
  /** A reconnecting watch sees its last event again. */
  watchOverlap: boolean;
  /** The watch stays open and tells nothing: no events, no keepalives. */
  watchSilent: boolean;
  /** The watch stays open, sends keepalives, and keeps its events to itself. */
  watchWithholds: boolean;
  /** The watch is answered 200 and closed at once. */
  watchHangsUp: boolean;
  /** Each event is sent this many times. */
  watchCopies: number;
  /** Each event waits for the next one and is sent after it. */
  watchSwaps: boolean;
  /** How long a suspended session's row is still seen. */
  suspendedVisibleMs: number;
  /** How long a terminated session's row is still seen. */
  tombstoneMs: number;
  /** How long the queue's status lags behind what the remote was told. */
  statusLagMs: number;
  /** A released row of a dead session stays behind as `pending`. */
  deadRows: boolean;
  pageSize: number;
  /** The list answers with no rows, or with its first page only. */
  list: 'whole' | 'empty' | 'first-page';
  deadline: 'seconds' | 'milliseconds' | 'iso' | 'absent';
  names: 'snake' | 'camel';
  /** A claim of our own acceptor is refused with 409 instead of renewed. */
  renewals: 'renew' | 'refuse';
  /** What the administrator answers who is asked to connect an outpost. `forged`: an answer to somebody else's question. */
  consent: 'agree' | 'deny' | 'forged';
  binary: 'good' | 'missing' | 'truncated' | 'html' | 'other-bytes';
  checksum: 'good' | 'missing' | 'empty' | 'html' | 'other-file' | 'crlf-upper' | 'with-name';
}

export const DEFAULT_KNOBS: Knobs = {
  token: 'cog_emulator_token',
  claimLifeMs: 300_000,
  keepaliveMs: 1_000,
  watchLifeMs: 300_000,
  watchOverlap: true,
  watchSilent: false,
  watchWithholds: false,
  watchHangsUp: false,
  watchCopies: 1,
  watchSwaps: false,
  suspendedVisibleMs: 1_000,
  tombstoneMs: 5_000,
  statusLagMs: 0,
  deadRows: false,
  pageSize: 200,
  list: 'whole',
  deadline: 'seconds',
  names: 'snake',
  renewals: 'renew',
  consent: 'agree',
  binary: 'good',
  checksum: 'good',
};

export const ROUTES = [
  'list',
  'watch',
  'get',
  'claim',
  'release',
  'outposts',
  'connect',
  'connection-token',
  'latest',
  'binary',
  'checksum',
] as const;
export type Route = (typeof ROUTES)[number];

/** What happens instead of, or to, an answer. `after` variants let the call take effect first. */
export interface Fault {
  readonly route: Route | '*';
  readonly kind: 'status' | 'html' | 'reset' | 'reset-after' | 'hang' | 'cut' | 'delay';
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** For `delay`. */
  readonly ms?: number;
  /** How many calls it hits; 0: all until cleared. */
  readonly count: number;
  /** Only calls about this session. */
  readonly sessionId?: string;
}

/** Rules that are used up one by one. */
export class Faults {
  #rules: { readonly fault: Fault; left: number }[] = [];

  add(fault: Fault): void {
    this.#rules.push({ fault, left: fault.count === 0 ? Infinity : fault.count });
  }

  clear(): void {
    this.#rules = [];
  }

  take(route: Route, sessionId: string | undefined): Fault | undefined {
    const rule = this.#rules.find(
      ({ fault, left }) =>
        left > 0 &&
        (fault.route === route || fault.route === '*') &&
        (fault.sessionId === undefined || fault.sessionId === sessionId),
    );
    if (rule === undefined) return undefined;
    rule.left -= 1;
    return rule.fault;
  }
}
