/**
 * The emulated queue: sessions, compare-and-set claims, and a log of changes that list and watch both read from.
 * Semantics are those of Devin's queue as its users see it; nothing here knows HTTP.
 */
import type { Clock, Random } from '../lib/clock.ts';
import type { Knobs } from './settings.ts';

export type Status = 'pending' | 'running' | 'suspended' | 'terminated';

export interface Session {
  readonly id: string;
  kind: 'new' | 'resume';
  platform: string;
  remoteSha: string | undefined;
  networkPolicy: unknown;
  phase: 'pending' | 'claimed';
  acceptor: string | undefined;
  claimDeadline: number | undefined;
  status: Status;
  queued: boolean;
  /** Position of its last change in the log. */
  seq: number;
  createdAt: number;
  updatedAt: number;
  /** Tokens that the gateway accepts. */
  readonly tokens: Set<string>;
  readonly seen: SessionTimes;
}

/** When what happened last, in milliseconds since the epoch. */
export interface SessionTimes {
  enqueuedAt: number;
  claimedAt?: number;
  connectedAt?: number;
  claims: number;
  claimRefusals: number;
  releases: number;
}

export interface Change {
  readonly seq: number;
  readonly type: 'MODIFIED' | 'DELETED';
  readonly sessionId: string;
  /** The row as it was; absent for a row that left. */
  readonly row: Session | undefined;
}

export interface NewSession {
  readonly sessionId: string;
  readonly kind?: 'new' | 'resume';
  readonly platform?: string;
  readonly remoteSha?: string;
  readonly networkPolicy?: unknown;
  readonly status?: Status;
}

export type ClaimAnswer =
  | { readonly status: 200; readonly session: Session; readonly token: string }
  | { readonly status: 404 | 409 };

/** Changes kept for late watchers; an older cursor is answered 410. */
const LOG_LENGTH = 50_000;

export class Store {
  readonly sessions = new Map<string, Session>();
  readonly violations: string[] = [];
  readonly #knobs: Knobs;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #listeners = new Set<(change: Change) => void>();
  /** Rows in the order of their last change, which is the order of lists. */
  readonly #rows = new Map<string, Session>();
  #log: Change[] = [];
  #seq = 0;

  constructor(knobs: Knobs, clock: Clock, random: Random) {
    this.#knobs = knobs;
    this.#clock = clock;
    this.#random = random;
  }

  get head(): number {
    return this.#seq;
  }

  get depth(): number {
    return this.#rows.size;
  }

  enqueue(request: NewSession): Session {
    const now = this.#clock.now();
    const known = this.sessions.get(request.sessionId);
    const session: Session = {
      id: request.sessionId,
      kind: request.kind ?? (known === undefined ? 'new' : 'resume'),
      platform: request.platform ?? known?.platform ?? 'linux',
      remoteSha: request.remoteSha ?? known?.remoteSha,
      networkPolicy: request.networkPolicy ?? known?.networkPolicy,
      phase: 'pending',
      acceptor: undefined,
      claimDeadline: undefined,
      status: request.status ?? 'pending',
      queued: true,
      seq: 0,
      createdAt: now,
      updatedAt: now,
      tokens: new Set(),
      seen: { enqueuedAt: now, claims: 0, claimRefusals: 0, releases: 0 },
    };
    this.sessions.set(session.id, session);
    this.changed(session);
    return session;
  }

  /** The row as it stands now; a claim that ran out is found out here. */
  row(sessionId: string): Session | undefined {
    const session = this.#rows.get(sessionId);
    if (session !== undefined) this.#lapse(session);
    return this.#rows.get(sessionId);
  }

  /** Rows changed after `cursor`, in the order of change. */
  *rowsAfter(cursor: number): IterableIterator<Session> {
    for (const session of this.#rows.values()) if (session.seq > cursor) yield session;
  }

  /** Undefined: the cursor is too old. */
  changesAfter(cursor: number): readonly Change[] | undefined {
    const [oldest] = this.#log;
    if (oldest !== undefined && cursor < oldest.seq - 1 && cursor > 0) return undefined;
    return this.#log.filter((change) => change.seq > cursor);
  }

  claim(sessionId: string, acceptor: string): ClaimAnswer {
    const session = this.row(sessionId);
    if (session === undefined) return { status: 404 };
    const ours = session.phase === 'claimed' && session.acceptor === acceptor;
    if ((session.phase === 'claimed' && !ours) || (ours && this.#knobs.renewals === 'refuse')) {
      session.seen.claimRefusals += 1;
      return { status: 409 };
    }
    if (!ours && (session.status === 'suspended' || session.status === 'terminated')) {
      this.violations.push(`${acceptor} claimed ${sessionId}, which is ${session.status}`);
    }
    if (session.acceptor !== acceptor) session.tokens.clear();
    const now = this.#clock.now();
    const token = `ct_${this.#random.id()}`;
    session.tokens.add(token);
    if (!ours) session.seen.claimedAt = now;
    session.seen.claims += 1;
    session.phase = 'claimed';
    session.acceptor = acceptor;
    session.claimDeadline = now + this.#knobs.claimLifeMs;
    this.changed(session);
    return { status: 200, session, token };
  }

  release(sessionId: string, acceptor: string): 200 | 404 | 409 {
    const session = this.row(sessionId);
    if (session === undefined) return 404;
    if (session.phase !== 'claimed' || session.acceptor !== acceptor) return 409;
    session.seen.releases += 1;
    const dead = session.status === 'suspended' || session.status === 'terminated';
    this.#unclaim(session);
    if (dead && !this.#knobs.deadRows && session.status === 'suspended') this.remove(session);
    else this.changed(session);
    return 200;
  }

  changed(session: Session): void {
    this.#seq += 1;
    session.seq = this.#seq;
    session.updatedAt = this.#clock.now();
    session.queued = true;
    this.#rows.delete(session.id);
    this.#rows.set(session.id, session);
    this.#tell({ seq: this.#seq, type: 'MODIFIED', sessionId: session.id, row: { ...session } });
  }

  remove(session: Session): void {
    if (!this.#rows.delete(session.id)) return;
    session.queued = false;
    this.#seq += 1;
    this.#tell({ seq: this.#seq, type: 'DELETED', sessionId: session.id, row: undefined });
  }

  /** Ends every claim whose time is over. */
  lapseAll(): void {
    for (const session of this.#rows.values()) this.#lapse(session);
  }

  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #lapse(session: Session): void {
    if (session.claimDeadline === undefined || this.#clock.now() < session.claimDeadline) return;
    this.#unclaim(session);
    this.changed(session);
  }

  #unclaim(session: Session): void {
    session.phase = 'pending';
    session.acceptor = undefined;
    session.claimDeadline = undefined;
  }

  #tell(change: Change): void {
    this.#log.push(change);
    if (this.#log.length > LOG_LENGTH * 2) this.#log = this.#log.slice(-LOG_LENGTH);
    for (const listener of this.#listeners) listener(change);
  }
}
