/**
 * Claims and their renewal, in a lane of their own: a ten-minute archive never costs a claim. Grants live in memory
 * only, because of the connect token; after a restart a claim under our own acceptor id gives a fresh one.
 */
import PQueue from 'p-queue';
import type { Clock } from '../lib/clock.ts';
import type { Call } from '../lib/deadline.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import { ApiError, type ClaimGrant, type ClaimResult, type OutpostsApi } from '../outposts/outposts.ts';
import type { Queue } from '../outposts/queue.ts';
import type { Recorder } from './recorder.ts';

export interface ClaimsOptions {
  readonly api: OutpostsApi;
  readonly queue: Queue;
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: Recorder;
  /** A claim is renewed when less than this is left of it. Milliseconds. */
  readonly renewMarginMs: number;
  readonly callMs: number;
  /** Sessions whose claim must be kept: those that have a machine, or are getting one. */
  readonly wanted: () => Iterable<string>;
}

/** Two renewal looks a minute cost nothing, and leave many tries within the margin. */
const TICK_MS = 1_000;
/** After a failed renewal; within a margin of 60 s that is a dozen tries. */
const RETRY_MS = 5_000;
/** Renewals in flight: a restart with a thousand sessions renews them all at once. */
const CONCURRENCY = 16;

export class Claims {
  readonly #options: ClaimsOptions;
  readonly #grants = new Map<string, { readonly grant: ClaimGrant; readonly at: number }>();
  readonly #notBefore = new Map<string, number>();
  readonly #renewing = new Set<string>();
  readonly #lane = new PQueue({ concurrency: CONCURRENCY });

  constructor(options: ClaimsOptions) {
    this.#options = options;
  }

  /** Takes the session, or renews our claim on it. What the answer says goes into the queue's picture. */
  async claim(sessionId: string, call: Call): Promise<ClaimResult> {
    const { api, queue, clock } = this.#options;
    const result = await api.claim(sessionId, call);
    if (result.kind === 'claimed') {
      this.#grants.set(sessionId, { grant: result.grant, at: clock.now() });
      queue.fold(result.grant.entry);
    } else if (result.kind === 'held') {
      queue.fold(result.entry);
    } else {
      this.#grants.delete(sessionId);
      queue.forget(sessionId);
    }
    return result;
  }

  /** The grant we hold if it is no older than `maxAgeMs`, else a new one. */
  async grant(sessionId: string, maxAgeMs: number, call: Call): Promise<ClaimResult> {
    const known = this.#grants.get(sessionId);
    if (known !== undefined && this.#options.clock.now() - known.at <= maxAgeMs) {
      return { kind: 'claimed', grant: known.grant };
    }
    const claimed = await this.claim(sessionId, call);
    if (claimed.kind !== 'held') return claimed;
    // Ours, but without a token: the only way to one is a claim anew.
    await this.release(sessionId, call);
    return await this.claim(sessionId, call);
  }

  async release(sessionId: string, call: Call): Promise<void> {
    this.#grants.delete(sessionId);
    await this.#options.api.release(sessionId, call);
    this.#options.queue.forget(sessionId);
  }

  drop(sessionId: string): void {
    this.#grants.delete(sessionId);
    this.#notBefore.delete(sessionId);
  }

  /** Renews what is due, until aborted. `beat` is called each round, for the liveness check. */
  async run(signal: AbortSignal, beat: () => void): Promise<void> {
    const { clock } = this.#options;
    while (!signal.aborted) {
      beat();
      this.#renewDue(signal);
      await clock.sleep(TICK_MS, signal).catch(() => undefined);
    }
    await this.#lane.onIdle();
  }

  #renewDue(signal: AbortSignal): void {
    const now = this.#options.clock.now();
    for (const sessionId of this.#options.wanted()) {
      if (this.#renewing.has(sessionId) || now < this.#dueAt(sessionId)) continue;
      this.#renewing.add(sessionId);
      void this.#lane
        .add(() => this.#renew(sessionId, signal))
        .finally(() => this.#renewing.delete(sessionId));
    }
  }

  /** Infinity: not ours to renew. */
  #dueAt(sessionId: string): number {
    const { entry } = this.#options.queue.sighting(sessionId);
    const known = this.#grants.get(sessionId);
    const held =
      entry?.phase === 'claimed' && entry.acceptorId !== undefined && entry.status !== 'terminated';
    if (!held || entry.acceptorId !== this.#options.api.acceptorId) return Infinity;
    const deadline = Math.max(known?.grant.deadline ?? 0, entry.claimDeadline ?? 0);
    return Math.max(deadline - this.#options.renewMarginMs, this.#notBefore.get(sessionId) ?? 0);
  }

  async #renew(sessionId: string, signal: AbortSignal): Promise<void> {
    const { recorder, log, clock, callMs, renewMarginMs } = this.#options;
    if (signal.aborted) return;
    try {
      const result = await this.claim(sessionId, { timeoutMs: callMs, signal });
      if (result.kind === 'held') {
        // This queue does not renew: the claim is ours until it lapses, and then it is taken again.
        this.#notBefore.set(sessionId, clock.now() + RETRY_MS);
        return;
      }
      this.#notBefore.delete(sessionId);
      recorder.claim(result.kind === 'claimed' ? 'renewed' : 'renew_lost');
      if (result.kind !== 'claimed')
        log.warn('claim lost at renewal', { session: sessionId, result: result.kind });
    } catch (error) {
      const asked = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
      // At least one more try has to fit in before the claim lapses.
      const waitMs = Math.max(RETRY_MS, Math.min(asked, renewMarginMs / 2));
      this.#notBefore.set(sessionId, clock.now() + waitMs);
      recorder.claim('failed');
      if (!signal.aborted)
        log.warn('claim renewal failed', { session: sessionId, error: describeError(error) });
    }
  }
}
