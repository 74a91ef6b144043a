/**
 * One pass over one session: look at the whole view, ask the planner, do the step, look again, until the planner
 * waits. Failures are written down and paced here; the planner sees only their count.
 */
import { backoffMs, type BackoffPolicy } from '../lib/backoff.ts';
import { withDeadline } from '../lib/deadline.ts';
import { describeError, DvoError, type ErrorCode } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import { LONGEST_HINT_MS } from '../lib/retry.ts';
import { ApiError } from '../outposts/outposts.ts';
import { isGone, isProviderError, type ProviderErrorKind } from '../sandboxes/provider.ts';
import { amend } from '../session/amend.ts';
import type { Step, StepName } from '../session/decision.ts';
import type { Planner, View } from '../session/plan.ts';
import { NO_FACTS, type SessionRecord, type Stage } from '../session/session.ts';
import { lifeOf } from './records.ts';
import { StepContext, type Deps, type Lane } from './context.ts';
import { runStep } from './steps/run-step.ts';
import type { StepResult } from './steps/step.ts';

/** Waits between tries of one failing step. */
const RETRY: BackoffPolicy = { firstMs: 500, maxMs: 30_000, factor: 2 };
/** A pass that has done this many steps lets others run first. */
const STEPS_PER_PASS = 30;
const REPEATS_PER_PASS = 3;
const REPEAT_MS = 1_000;
const LOOKS: ReadonlySet<StepName> = new Set(['probe', 'look']);
/** Above the longest single call (an archive), so that it only ends what ignores its own limits. */
const STEP_LIMIT_MS = 900_000;
/** For this long what may pass is waited out before it counts as a failure of the session: Devin waits five minutes. */
const PATIENCE_MS = 240_000;

export class Reconciler {
  readonly #deps: Deps;
  readonly #lanes = new Map<string, Lane>();
  readonly #stop: AbortSignal;
  readonly #plan: Planner;
  #draining = false;
  #halted = false;

  /** @param stop aborts the steps in progress; their sessions stay as their records say */
  constructor(deps: Deps, stop: AbortSignal, plan: Planner) {
    this.#deps = deps;
    this.#stop = stop;
    this.#plan = plan;
  }

  drain(): void {
    this.#draining = true;
  }

  /** No further step is begun; those in progress end by themselves. */
  halt(): void {
    this.#halted = true;
  }

  /** What this process knows of the session's machine, for the status view. */
  lane(sessionId: string): Lane | undefined {
    return this.#lanes.get(sessionId);
  }

  /** The next look should see the machine anew: the platform's list says that its sandbox is not there. */
  doubt(sessionId: string): void {
    const lane = this.#lanes.get(sessionId);
    if (lane === undefined) return;
    const { looksSinceExit, healthySince } = lane.facts;
    // A list that never shows it, being another daemon's, must not keep a healthy remote from counting as one.
    lane.facts = { ...NO_FACTS, looksSinceExit, ...(healthySince === undefined ? {} : { healthySince }) };
  }

  /** Answers when to look again (milliseconds since the epoch); undefined: when something changes. */
  async pass(sessionId: string): Promise<number | undefined> {
    const lane = this.#laneOf(sessionId);
    let last: string | undefined;
    let repeats = 0;
    for (let steps = 0; steps < STEPS_PER_PASS; steps += 1) {
      if (this.#halted || this.#stop.aborted) return undefined;
      const now = this.#deps.clock.now();
      const decision = this.#plan(this.#view(lane, now), this.#deps.rules);
      if (decision.kind === 'wait') {
        this.#retire(lane);
        return decision.until;
      }
      const { failed } = lane;
      if (failed !== undefined && failed.step === decision.step.do && now < failed.retryAt)
        return Math.min(failed.retryAt, now + this.#deps.rules.probeEveryMs);
      repeats = decision.step.do === last ? repeats + 1 : 0;
      last = decision.step.do;
      // A step that succeeds and is wanted again at once is being answered by a world that has not caught up.
      if (repeats >= REPEATS_PER_PASS) return now + REPEAT_MS;
      await this.#run(lane, decision.step);
    }
    return this.#deps.clock.now();
  }

  async #run(lane: Lane, step: Step): Promise<void> {
    const { clock, recorder, tracer, index } = this.#deps;
    lane.turn += 1;
    const turn = lane.turn;
    // How many times in a row this step has been tried, with this one.
    const attempt = (lane.failed?.step === step.do ? lane.failed.tries : 0) + 1;
    const log = this.#deps.log.child({
      session: lane.sessionId,
      sandbox: lane.name,
      step: step.do,
      attempt,
    });
    const startedAt = clock.now();
    try {
      const limit = { timeoutMs: STEP_LIMIT_MS, signal: this.#stop };
      const record = index.get(lane.name);
      const life = record === undefined ? undefined : lifeOf(lane.name, record);
      const result: StepResult = await tracer.step(
        life,
        { name: step.do, attributes: { 'dvo.attempt': attempt }, routine: step.do === 'probe' },
        () =>
          withDeadline(clock, step.do, limit, (signal) =>
            runStep(new StepContext(this.#deps, lane, log, signal), step),
          ),
      );
      if (result !== undefined) lane.failed = { step: step.do, retryAt: result.again, tries: 0 };
      // A look between its tries does not make a failing step a new one.
      else if (!LOOKS.has(step.do) || lane.failed?.step === step.do) lane.failed = undefined;
      const tookMs = clock.now() - startedAt;
      recorder.step(step.do, 'ok', tookMs);
      log.debug('step done', { tookMs });
    } catch (error) {
      // Whatever the step still does after this, it may not write.
      if (lane.turn === turn) lane.turn += 1;
      if (this.#stop.aborted) return;
      const deadline = error instanceof DvoError && error.code === 'deadline';
      const tookMs = clock.now() - startedAt;
      recorder.step(step.do, deadline ? 'deadline' : 'failed', tookMs);
      this.#noteFailure(lane, step, error, { attempt, tookMs, log });
    }
  }

  #noteFailure(
    lane: Lane,
    step: Step,
    error: unknown,
    run: { readonly attempt: number; readonly tookMs: number; readonly log: Logger },
  ): void {
    const { clock, index, random } = this.#deps;
    const now = clock.now();
    const message = describeError(error);
    const record = index.get(lane.name);
    const patient = record !== undefined && isPassing(error) && hasPatience(record, now);
    const failures = (record?.failures ?? 0) + (patient ? 0 : 1);
    if (record !== undefined) {
      const lastError = { at: now, step: step.do, message };
      index.put(lane.name, amend(record, { set: { failures, lastError } }, now));
    }
    const asked = isProviderError(error) || error instanceof ApiError ? error.retryAfterMs : undefined;
    // Tries, not failures: what is waited out is not counted against the session, but is paced all the same.
    const { attempt: tries, tookMs, log } = run;
    const hint = Math.min(asked ?? 0, LONGEST_HINT_MS);
    const retryAt = now + Math.max(hint, backoffMs(RETRY, tries, random.next()));
    lane.failed = { step: step.do, retryAt, tries };
    // Which sandbox it was that is not there is for a look to say.
    if (isGone(error)) lane.facts = { ...lane.facts, sandbox: 'unknown' };
    log.warn('step failed', { error: message, failures, tookMs, retryAt });
    this.#noteRefusal(step, record, error);
  }

  /** What fails for every session alike closes admission instead of failing them one by one. */
  #noteRefusal(step: Step, record: SessionRecord | undefined, error: unknown): void {
    const { gate } = this.#deps;
    const message = describeError(error);
    if (error instanceof ApiError && error.unauthorized) gate.pause('devin-credentials', message);
    if (step.do !== 'ensure-sandbox') return gate.noteRefusedKey(error);
    // An archive, or a network policy, may be what is refused, and these are the session's own.
    const isPlain = record?.archive === undefined && record?.egress === undefined;
    if (isProviderError(error, 'unauthenticated') || (isPlain && isProviderError(error, 'misconfigured')))
      gate.pause('platform-request', message);
  }

  #view(lane: Lane, now: number): View {
    const { queue, index, identity } = this.#deps;
    const sighting = queue.sighting(lane.sessionId);
    const record = index.get(lane.name);
    // A step may have been cut off between the record and what it knew of the machine.
    if (record !== undefined && record.sandboxId === undefined && lane.facts.sandbox !== 'unknown') {
      lane.facts = { ...lane.facts, sandbox: 'none', remote: 'unknown' };
    }
    return {
      now,
      sighting,
      ours: sighting.entry?.phase === 'claimed' && sighting.entry.acceptorId === identity.acceptorId,
      record,
      facts: lane.facts,
      draining: this.#draining,
    };
  }

  #laneOf(sessionId: string): Lane {
    const known = this.#lanes.get(sessionId);
    if (known !== undefined) return known;
    const name = this.#deps.identity.nameOf(sessionId);
    const lane: Lane = {
      sessionId,
      name,
      facts: NO_FACTS,
      sandbox: undefined,
      turn: 0,
      foundAt: undefined,
      failed: undefined,
    };
    this.#lanes.set(sessionId, lane);
    return lane;
  }

  /** A session without a record needs no memory between passes. */
  #retire(lane: Lane): void {
    if (this.#deps.index.get(lane.name) === undefined) this.#lanes.delete(lane.sessionId);
  }
}

/**
 * Not the session's fault, and likely to pass: no capacity, refused credentials, no answer or one that is not from whom
 * it should be, Devin or our disk in trouble.
 */
function isPassing(error: unknown): boolean {
  if (isProviderError(error)) return PASSING.has(error.kind);
  if (error instanceof ApiError) {
    const { status } = error;
    return status === undefined || status < 400 || status >= 500 || status === 429 || error.unauthorized;
  }
  return error instanceof DvoError && PASSING_CODES.has(error.code);
}

const PASSING: ReadonlySet<ProviderErrorKind> = new Set(['exhausted', 'unauthenticated', 'ambiguous']);
const PASSING_CODES: ReadonlySet<ErrorCode> = new Set(['state', 'deadline', 'unreachable']);

/** On the way up, for as long as Devin waits. Later nothing is given up for its failures. */
function hasPatience({ stage, stageSince }: SessionRecord, now: number): boolean {
  return WAY_UP.has(stage) && now - stageSince < PATIENCE_MS;
}

const WAY_UP: ReadonlySet<Stage> = new Set(['claimed', 'provisioning', 'preparing']);
