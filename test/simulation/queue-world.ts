/**
 * Devin's side: one queue, shared by all acceptors. Entries, a change log with cursors, claims that lapse, statuses
 * that are set by the sessions' users (users.ts). It knows nothing of machines.
 */
import type { QueueEntry, SessionStatus } from '../../src/session/session.ts';
import type { Draw } from './draw.ts';
import type { Scheduler } from './virtual-clock.ts';

export interface Row {
  readonly sessionId: string;
  readonly createdAt: number;
  kind: 'new' | 'resume';
  phase: 'pending' | 'claimed';
  status: SessionStatus;
  acceptorId: string | undefined;
  claimDeadline: number | undefined;
  updatedAt: number;
  /** Place in the change log. */
  seq: number;
}

export interface Change {
  readonly seq: number;
  readonly kind: 'changed' | 'deleted';
  readonly entry: QueueEntry;
}

/** What this queue does where the contract leaves it open. */
export interface QueueHabits {
  /** A lapsed claim on a running session returns to the queue. */
  readonly runningClaimsLapse: boolean;
  /** A claim of the same acceptor is renewed, with a fresh token; else it is refused. */
  readonly renews: boolean;
  readonly tellsUpdatedAt: boolean;
  /** DELETED events carry the entry as it last was. */
  readonly deletedCarriesEntry: boolean;
  readonly pageSize: number;
}

const CLAIM_LIFE_MS = 300_000;
/** A released row of a session that is over stays for a while. */
const SWEEP_DEAD_MS: readonly [number, number] = [5_000, 60_000];

export interface Token {
  readonly sessionId: string;
  readonly acceptorId: string;
  readonly serial: number;
}

export class QueueWorld {
  readonly habits: QueueHabits;
  readonly #scheduler: Scheduler;
  readonly #draw: Draw;
  readonly rows = new Map<string, Row>();
  readonly log: Change[] = [];
  readonly #listeners = new Set<() => void>();
  /** The last acceptor that was given the session. */
  readonly lastHolder = new Map<string, string>();
  readonly tokens = new Map<string, Token>();
  #seq = 0;

  constructor(scheduler: Scheduler, draw: Draw, habits: QueueHabits) {
    this.#scheduler = scheduler;
    this.#draw = draw;
    this.habits = habits;
  }

  get seq(): number {
    return this.#seq;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The session wants a machine: a new row, or the row of a session that was asleep, pending again. */
  enqueue(sessionId: string, kind: 'new' | 'resume'): void {
    const { now } = this.#scheduler;
    const row = this.rows.get(sessionId) ?? {
      sessionId,
      createdAt: now,
      kind,
      phase: 'pending',
      status: 'pending',
      acceptorId: undefined,
      claimDeadline: undefined,
      updatedAt: now,
      seq: 0,
    };
    this.rows.set(sessionId, row);
    row.kind = kind;
    row.status = 'pending';
    // Woken before its row was swept: it either goes on under the claim it has, or is up for all.
    if (row.phase === 'claimed' && this.#draw.chance(0.5)) row.status = 'running';
    else this.#free(row);
    this.touch(row);
  }

  /** A sleeping session was ended: some queues show that for a while. */
  showTerminated(sessionId: string): void {
    const { now } = this.#scheduler;
    const row: Row = {
      sessionId,
      createdAt: now,
      kind: 'resume',
      phase: 'pending',
      status: 'terminated',
      acceptorId: undefined,
      claimDeadline: undefined,
      updatedAt: now,
      seq: 0,
    };
    this.rows.set(sessionId, row);
    this.#sweepLater(row);
    this.touch(row);
  }

  setStatus(sessionId: string, status: SessionStatus): void {
    const row = this.rows.get(sessionId);
    if (row === undefined || row.status === status) return;
    row.status = status;
    if (isOver(status) && row.phase === 'pending') this.#sweepLater(row);
    this.touch(row);
  }

  /** The entry leaves the queue. */
  remove(sessionId: string): void {
    const row = this.rows.get(sessionId);
    if (row === undefined) return;
    this.rows.delete(sessionId);
    this.#seq += 1;
    this.log.push({ seq: this.#seq, kind: 'deleted', entry: this.entryOf(row) });
    this.#tell();
  }

  claim(
    sessionId: string,
    acceptorId: string,
  ): { kind: 'claimed'; row: Row; token: string } | 'held' | 'lost' | 'absent' {
    const row = this.rows.get(sessionId);
    if (row === undefined) return 'absent';
    this.#lapse(row);
    if (row.phase === 'claimed' && row.acceptorId !== acceptorId) return 'lost';
    if (row.phase === 'claimed' && !this.habits.renews) return 'held';
    row.phase = 'claimed';
    row.acceptorId = acceptorId;
    const deadline = this.#scheduler.now + CLAIM_LIFE_MS;
    row.claimDeadline = deadline;
    this.#scheduler.after(CLAIM_LIFE_MS, () => this.#lapse(row));
    this.lastHolder.set(sessionId, acceptorId);
    this.touch(row);
    const serial = this.tokens.size + 1;
    const token = `connect-token-${serial}`;
    this.tokens.set(token, { sessionId, acceptorId, serial });
    return { kind: 'claimed', row, token };
  }

  release(sessionId: string, acceptorId: string): void {
    const row = this.rows.get(sessionId);
    if (row === undefined || row.phase !== 'claimed' || row.acceptorId !== acceptorId) return;
    this.#free(row);
    if (isOver(row.status)) this.#sweepLater(row);
    this.touch(row);
  }

  touch(row: Row): void {
    this.#seq += 1;
    row.seq = this.#seq;
    row.updatedAt = this.#scheduler.now;
    this.log.push({ seq: this.#seq, kind: 'changed', entry: this.entryOf(row) });
    this.#tell();
  }

  entryOf(row: Row): QueueEntry {
    return {
      sessionId: row.sessionId,
      createdAt: row.createdAt,
      ...(this.habits.tellsUpdatedAt ? { updatedAt: row.updatedAt } : {}),
      kind: row.kind,
      platform: 'linux',
      phase: row.phase,
      ...(row.acceptorId === undefined ? {} : { acceptorId: row.acceptorId }),
      ...(row.claimDeadline === undefined ? {} : { claimDeadline: row.claimDeadline }),
      status: row.status,
    };
  }

  #lapse(row: Row): void {
    if (row.phase !== 'claimed' || row.claimDeadline === undefined) return;
    if (this.#scheduler.now < row.claimDeadline || this.rows.get(row.sessionId) !== row) return;
    if (row.status === 'running' && !this.habits.runningClaimsLapse) return;
    this.#free(row);
    if (isOver(row.status)) this.#sweepLater(row);
    this.touch(row);
  }

  #free(row: Row): void {
    row.phase = 'pending';
    row.acceptorId = undefined;
    row.claimDeadline = undefined;
  }

  #sweepLater(row: Row): void {
    this.#scheduler.after(this.#draw.between(...SWEEP_DEAD_MS), () => {
      if (this.rows.get(row.sessionId) === row && row.phase === 'pending' && isOver(row.status)) {
        this.remove(row.sessionId);
      }
    });
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function isOver(status: SessionStatus): boolean {
  return status === 'suspended' || status === 'terminated' || status === 'over';
}
