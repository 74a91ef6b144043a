/** What the motor works with, and what one step gets to see of it. */
import type { Clock, Random } from '../lib/clock.ts';
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Tracer } from '../lib/tracer.ts';
import type { OutpostsApi } from '../outposts/outposts.ts';
import type { Queue } from '../outposts/queue.ts';
import type { Marker, RemoteControl } from '../remote/port.ts';
import type { SandboxInfo, SandboxProvider } from '../sandboxes/provider.ts';
import type { SandboxName } from '../sandboxes/names.ts';
import { amend, type Change } from '../session/amend.ts';
import type { Egress } from '../session/egress.ts';
import type { Rules } from '../session/rules.ts';
import type { Facts, NetworkPolicy, SessionRecord } from '../session/session.ts';
import type { AdmissionGate } from './admission-gate.ts';
import type { Claims } from './claims.ts';
import type { Recorder } from './recorder.ts';
import type { Records } from './records.ts';

/** Limits on single calls, in milliseconds. */
export interface CallLimits {
  readonly apiMs: number;
  /** Small questions to the platform: get, list, delete. */
  readonly platformMs: number;
  readonly createMs: number;
  readonly prepareMs: number;
  readonly launchMs: number;
  readonly probeMs: number;
  readonly stopMs: number;
  readonly snapshotMs: number;
}

export const DEFAULT_LIMITS: CallLimits = {
  apiMs: 30_000,
  platformMs: 30_000,
  createMs: 60_000,
  // Installing git on a bare image and cloning repositories; within the claim, which is renewed meanwhile.
  prepareMs: 300_000,
  launchMs: 30_000,
  probeMs: 20_000,
  stopMs: 60_000,
  // The SDK's own default for an archive.
  snapshotMs: 600_000,
};

/** Who we are, in names and tags. */
export interface Identity {
  readonly outpostId: string;
  readonly acceptorId: string;
  /** Tags of every sandbox besides its name. */
  readonly tags: readonly string[];
  readonly acceptorTag: string;
  readonly outpostTag: string;
  nameOf(sessionId: string): SandboxName;
}

export interface Deps {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly recorder: Recorder;
  readonly tracer: Tracer;
  readonly api: OutpostsApi;
  readonly queue: Queue;
  readonly index: Records;
  readonly provider: SandboxProvider;
  readonly remote: RemoteControl;
  readonly claims: Claims;
  readonly gate: AdmissionGate;
  readonly identity: Identity;
  readonly rules: Rules;
  readonly limits: CallLimits;
  /** Used when a claim's answer names no gateway. */
  readonly gatewayUrl: string | undefined;
  /** When the queue was first seen whole; undefined: not yet. Milliseconds since the epoch. */
  readonly syncedAt: () => number | undefined;
  /** What Devin's policy comes to with this provider as configured. */
  readonly egressFor: (policy: NetworkPolicy | undefined, gatewayUrl: string | undefined) => Egress;
}

/** Memory of one session that dies with the process. */
export interface Lane {
  readonly sessionId: string;
  readonly name: SandboxName;
  facts: Facts;
  /** The sandbox as last seen, for its paths. */
  sandbox: SandboxInfo | undefined;
  /** Raised for each step; a step whose number has passed may not write any more. */
  turn: number;
  /** When the session was first found to be ours without a record. Milliseconds since the epoch. */
  foundAt: number | undefined;
  /** The step that failed last, and when it may be tried again. */
  failed: { readonly step: string; readonly retryAt: number; readonly tries: number } | undefined;
}

/** One step's grip on its session. Everything it does with the outside goes through `deps` with `call`. */
export class StepContext {
  readonly deps: Deps;
  readonly lane: Lane;
  readonly log: Logger;
  readonly #turn: number;
  readonly #startedAt: number;
  readonly #signal: AbortSignal;

  constructor(deps: Deps, lane: Lane, log: Logger, signal: AbortSignal) {
    this.deps = deps;
    this.lane = lane;
    this.log = log;
    this.#turn = lane.turn;
    this.#startedAt = deps.clock.now();
    this.#signal = signal;
  }

  get sessionId(): string {
    return this.lane.sessionId;
  }

  get now(): number {
    return this.deps.clock.now();
  }

  /** How long this step has taken so far; for its log lines. */
  get tookMs(): number {
    return this.now - this.#startedAt;
  }

  /** @throws DvoError `internal`: the planner asks for such steps only with a record */
  get record(): SessionRecord {
    const record = this.deps.index.get(this.lane.name);
    if (record === undefined) throw new DvoError('internal', 'the session has no record');
    return record;
  }

  /** The limit of one call. @throws DvoError `stale` when this step has been given up */
  call(timeoutMs: number): Call {
    this.#assertCurrent();
    return { timeoutMs, signal: this.#signal };
  }

  /** In memory at once, on disk with the next commit. @throws DvoError `stale` */
  amend(change: Change): SessionRecord {
    this.#assertCurrent();
    const next = amend(this.record, change, this.now);
    this.deps.index.put(this.lane.name, next);
    return next;
  }

  /** Durable when it returns: for what must be known before an effect, or after one. @throws DvoError `stale`, `state` */
  async save(change: Change): Promise<SessionRecord> {
    const next = this.amend(change);
    await this.deps.index.commit();
    this.#assertCurrent();
    return next;
  }

  put(record: SessionRecord): void {
    this.#assertCurrent();
    this.deps.index.put(this.lane.name, record);
  }

  async remove(): Promise<void> {
    this.#assertCurrent();
    this.deps.index.delete(this.lane.name);
    await this.deps.index.commit();
  }

  facts(change: Partial<Facts>): void {
    this.#assertCurrent();
    this.lane.facts = { ...this.lane.facts, ...change };
  }

  marker(sandboxId: string): Marker {
    const { outpostId, acceptorId } = this.deps.identity;
    return { version: 1, sessionId: this.sessionId, outpostId, acceptorId, name: this.lane.name, sandboxId };
  }

  #assertCurrent(): void {
    if (this.lane.turn !== this.#turn || this.#signal.aborted) {
      throw new DvoError('stale', 'this step has been given up', { sessionId: this.lane.sessionId });
    }
  }
}
