/**
 * The motor: informer, lanes, claims, admission and janitor, wired together and kept running. It gets its ports
 * handed in, so the simulation runs this very code on a virtual clock. Configuration is open-motor.ts, signals are the command line's.
 */
import type { Clock, Random } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Tracer } from '../lib/tracer.ts';
import type { OutpostsApi } from '../outposts/outposts.ts';
import type { Queue, QueueHealth } from '../outposts/queue.ts';
import type { RemoteControl } from '../remote/port.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import type { AdmissionRules } from '../session/admission.ts';
import { nextStep, type Planner } from '../session/plan.ts';
import type { Rules } from '../session/rules.ts';
import { History } from './history.ts';
import type { SessionIndex } from '../state/session-index.ts';
import { AdmissionGate } from './admission-gate.ts';
import { Admissions } from './admission.ts';
import { Claims } from './claims.ts';
import type { CallLimits, Deps, Identity } from './context.ts';
import { Janitor } from './janitor.ts';
import type { Recorder } from './recorder.ts';
import { createRecords, type Records } from './records.ts';
import { Reconciler } from './reconciler.ts';
import { Workqueue } from './workqueue.ts';

/** The informer as the motor drives it. */
export interface RunningQueue extends Queue {
  run(signal: AbortSignal): Promise<void>;
  health(): QueueHealth;
}

export interface QueueHooks {
  readonly onChange: (sessionId: string) => void;
  /** Sessions whose sighting must not be forgotten. */
  readonly keep: (sessionId: string) => boolean;
  readonly onSynced: () => void;
}

export interface MotorParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly recorder: Recorder;
  readonly tracer: Tracer;
  readonly api: OutpostsApi;
  readonly openQueue: (hooks: QueueHooks) => RunningQueue;
  readonly index: SessionIndex;
  readonly provider: SandboxProvider;
  readonly remote: RemoteControl;
  readonly identity: Identity;
  readonly rules: Rules;
  readonly limits: CallLimits;
  readonly admission: AdmissionRules;
  readonly egressFor: Deps['egressFor'];
  readonly gatewayUrl: string | undefined;
  readonly settings: MotorSettings;
  /** A periodic task has come round again; for the liveness check. */
  readonly beat: (task: MotorTask) => void;
}

export type MotorTask = 'claims' | 'janitor' | 'upkeep';

export interface MotorSettings {
  readonly maxSessions: number;
  readonly renewMarginMs: number;
  readonly sweepEveryMs: number;
  /** See JanitorOptions. */
  readonly strayGraceMs: number;
}

const UPKEEP_EVERY_MS = 5_000;
/** A refused kind of sandbox is tried again with one session after this long. */
const REQUEST_PAUSE_MS = 300_000;

export class Motor {
  readonly #parts: MotorParts;
  readonly #stopping = new AbortController();
  /** Ends the steps in progress; later than `#stopping`, which only ends the loops. */
  readonly #cut = new AbortController();
  readonly #loops: Promise<void>[] = [];
  readonly history: History;
  readonly records: Records;
  readonly queue: RunningQueue;
  readonly gate: AdmissionGate;
  readonly admissions: Admissions;
  readonly #claims: Claims;
  readonly #reconciler: Reconciler;
  readonly #lanes: Workqueue;
  readonly #janitor: Janitor;
  #requestPausedAt: number | undefined;
  #syncedAt: number | undefined;

  /** @param plan another planner than the real one sees every view and decides: coverage and counter-proofs */
  constructor(parts: MotorParts, plan: Planner = nextStep) {
    this.#parts = parts;
    const { clock, log, recorder, identity } = parts;
    this.history = new History(clock);
    this.records = createRecords(parts.index, this.history, parts.tracer);
    this.queue = parts.openQueue({
      onChange: (sessionId) => this.#onChange(sessionId),
      keep: (sessionId) => this.records.get(identity.nameOf(sessionId)) !== undefined,
      onSynced: () => {
        this.#syncedAt = clock.now();
        this.#wakeAll();
      },
    });
    this.gate = new AdmissionGate({
      index: this.records,
      maxSessions: parts.settings.maxSessions,
      log,
      recorder,
      onOpen: () => this.admissions.request(),
    });
    this.#claims = new Claims({
      api: parts.api,
      queue: this.queue,
      clock,
      log,
      recorder,
      renewMarginMs: parts.settings.renewMarginMs,
      callMs: parts.limits.apiMs,
      wanted: () => this.#sessionsAtWork(),
    });
    const deps: Deps = {
      ...parts,
      syncedAt: () => this.#syncedAt,
      queue: this.queue,
      index: this.records,
      claims: this.#claims,
      gate: this.gate,
    };
    this.#reconciler = new Reconciler(deps, this.#cut.signal, plan);
    this.#lanes = new Workqueue({
      clock,
      run: (sessionId) => this.#pass(sessionId),
      onError: (sessionId, error) =>
        log.error('pass failed', { session: sessionId, error: describeError(error) }),
      retryMs: UPKEEP_EVERY_MS,
    });
    this.admissions = new Admissions({
      clock,
      log,
      recorder,
      queue: this.queue,
      index: this.records,
      gate: this.gate,
      rules: parts.admission,
      nameOf: (sessionId) => identity.nameOf(sessionId),
      onAdmitted: (sessionId) => {
        this.history.noteQueued(identity.nameOf(sessionId), sessionId, this.queue.sighting(sessionId).entry);
        this.#lanes.add(sessionId);
      },
    });
    this.#janitor = new Janitor({
      deps,
      graceMs: parts.settings.strayGraceMs,
      onMissing: (sessionId) => {
        this.#reconciler.doubt(sessionId);
        this.#lanes.add(sessionId);
      },
      onAdopted: (sessionId) => this.#lanes.add(sessionId),
    });
  }

  /** Returns at once; the loops run until `stop`. */
  start(): void {
    this.gate.pause('starting', 'queue and platform have not both been seen whole yet');
    const { signal } = this.#stopping;
    this.#loops.push(
      this.queue.run(signal),
      this.#claims.run(signal, () => this.#parts.beat('claims')),
      this.#sweepLoop(signal),
      this.#upkeepLoop(signal),
    );
    this.#wakeAll();
  }

  /** What this process knows of one session's machine. */
  facts(sessionId: string) {
    return this.#reconciler.lane(sessionId)?.facts;
  }

  #wakeAll(): void {
    for (const [, record] of this.records.entries()) this.#lanes.add(record.sessionId);
  }

  /**
   * Instead of `start`: looks after one session, whose claim is renewed meanwhile, and takes on none. `stop` ends it.
   * @throws ApiError when the queue cannot be asked: another daemon may hold the session, so nothing was begun
   */
  async attend(sessionId: string): Promise<void> {
    const { signal } = this.#stopping;
    this.gate.pause('starting', 'one session is looked after, and none taken on');
    this.#loops.push(this.#claims.run(signal, () => undefined));
    await this.queue.look(sessionId, { timeoutMs: this.#parts.limits.apiMs, signal });
    this.#lanes.add(sessionId);
  }

  /** Looks at the session now. */
  wake(sessionId: string): void {
    this.#lanes.add(sessionId);
  }

  /**
   * Stops within `graceMs`: nothing new is claimed; claims with nothing behind them go back; with `drain`, every
   * session is first suspended as far as the time allows. Steps in progress get most of the time to end by
   * themselves, then are cut off; what they were doing stands in the index. Sandboxes and remotes live on.
   */
  async stop(mode: 'detach' | 'drain', graceMs: number): Promise<void> {
    const { clock, log } = this.#parts;
    const endsAt = clock.now() + graceMs;
    this.gate.pause('stopping', 'the daemon is stopping');
    await this.#commit();
    if (mode === 'drain') await this.#drain(endsAt - graceMs / 5);
    this.#reconciler.halt();
    const lanes = this.#lanes.stop();
    await this.#within(lanes, Math.max(0, (endsAt - clock.now()) * 0.6));
    this.#cut.abort(new Error('the daemon is stopping'));
    await lanes;
    await this.#within(this.#releaseEmptyClaims(endsAt), Math.max(0, endsAt - clock.now()));
    this.#stopping.abort(new Error('the daemon is stopping'));
    await this.#within(Promise.all(this.#loops), Math.max(0, endsAt - clock.now()));
    await this.#commit();
    log.info('stopped', { mode, sessions: this.records.atWork.size });
  }

  async #commit(): Promise<void> {
    try {
      await this.records.commit();
    } catch (error) {
      this.#parts.log.error('index not saved', { error: describeError(error) });
    }
  }

  async #drain(until: number): Promise<void> {
    const { clock, log } = this.#parts;
    log.info('draining: suspending every session', { sessions: this.records.atWork.size });
    this.#reconciler.drain();
    for (const sessionId of this.#sessionsAtWork()) this.#lanes.add(sessionId);
    while (this.records.atWork.size > 0 && clock.now() < until) await clock.sleep(100);
    if (this.records.atWork.size > 0)
      log.warn('not everything was suspended in time', { left: this.records.atWork.size });
  }

  /** A claim that we cannot serve any more keeps its session waiting until it lapses. */
  async #releaseEmptyClaims(until: number): Promise<void> {
    const { clock, log } = this.#parts;
    for (const name of this.records.atWork) {
      const record = this.records.get(name);
      if (record?.stage !== 'claimed' || record.kept === true) continue;
      try {
        const call = { timeoutMs: Math.max(1, until - clock.now()), signal: this.#stopping.signal };
        await this.#claims.release(record.sessionId, call);
      } catch (error) {
        log.warn('claim not released', { session: record.sessionId, error: describeError(error) });
      }
    }
  }

  async #within(work: Promise<unknown>, ms: number): Promise<void> {
    const done = new AbortController();
    const timer = this.#parts.clock.sleep(ms, done.signal).catch(() => undefined);
    await Promise.race([work, timer]);
    done.abort();
  }

  #onChange(sessionId: string): void {
    const { identity } = this.#parts;
    const record = this.records.get(identity.nameOf(sessionId));
    const { gist, entry } = this.queue.sighting(sessionId);
    if (gist === 'available' && (record === undefined || record.stage === 'suspended'))
      this.admissions.request();
    else this.admissions.forget(sessionId);
    if (record !== undefined || entry?.acceptorId === identity.acceptorId) this.#lanes.add(sessionId);
  }

  async #pass(sessionId: string): Promise<number | undefined> {
    const before = this.records.atWork.size;
    const next = await this.#reconciler.pass(sessionId);
    // A slot came free, or a cooled-down session may be waiting for one.
    if (this.records.atWork.size < before || this.gate.free > 0) this.admissions.request();
    return next;
  }

  *#sessionsAtWork(): Iterable<string> {
    for (const name of this.records.atWork) {
      const record = this.records.get(name);
      if (record !== undefined) yield record.sessionId;
    }
  }

  async #sweepLoop(signal: AbortSignal): Promise<void> {
    const { clock, log, beat } = this.#parts;
    while (!signal.aborted) {
      beat('janitor');
      try {
        await this.#janitor.sweep(signal);
        this.gate.resume('platform-credentials');
        if (this.#janitor.sweeps > 0) this.gate.resume('starting');
      } catch (error) {
        if (signal.aborted) return;
        this.gate.noteRefusedKey(error);
        log.warn('sweep not made', { error: describeError(error) });
      }
      await clock.sleep(this.#sweepWaitMs(), signal).catch(() => undefined);
    }
  }

  /** Until the first sweep has worked nothing is admitted, so it follows the first complete list closely. */
  #sweepWaitMs(): number {
    if (!this.queue.synced) return 50;
    if (this.#janitor.sweeps === 0) return 1_000;
    return this.gate.pauses.has('platform-credentials') ? 15_000 : this.#parts.settings.sweepEveryMs;
  }

  /** Looks at what closed admission, and at who has cooled down. */
  async #upkeepLoop(signal: AbortSignal): Promise<void> {
    const { clock, beat, recorder } = this.#parts;
    while (!signal.aborted) {
      beat('upkeep');
      this.#reviewPauses();
      recorder.stages(this.records.stages);
      recorder.slots(this.gate.used, this.gate.max);
      this.admissions.request();
      await clock.sleep(UPKEEP_EVERY_MS, signal).catch(() => undefined);
    }
  }

  #reviewPauses(): void {
    const { gate, queue, records } = this;
    const now = this.#parts.clock.now();
    const { unauthorized, problem } = queue.health();
    if (unauthorized) gate.pause('devin-credentials', problem ?? 'Devin refuses DEVIN_OUTPOSTS_TOKEN');
    else gate.resume('devin-credentials');
    if (records.trouble !== undefined) gate.pause('state', records.trouble);
    else gate.resume('state');
    if (!gate.pauses.has('platform-request')) this.#requestPausedAt = undefined;
    else this.#requestPausedAt ??= now;
    if (this.#requestPausedAt !== undefined && now - this.#requestPausedAt >= REQUEST_PAUSE_MS) {
      this.#requestPausedAt = undefined;
      gate.tryOne();
    }
  }
}
