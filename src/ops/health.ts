/** Alive and ready, judged from plain facts. Liveness fails only for a stalled loop: a restart cures nothing else. */
import type { Clock } from '../lib/clock.ts';

export interface Verdict {
  readonly ok: boolean;
  /** In words, for people. With `ok`: what works only in part. */
  readonly reasons: readonly string[];
}

export interface Health {
  alive(): Verdict;
  ready(): Verdict;
}

/** Periodic loops report here each time they come round. */
export class Heartbeats {
  readonly #clock: Clock;
  readonly #beats = new Map<string, number>();
  readonly #allowedMs: Readonly<Record<string, number>>;

  /** @param allowedMs how long each loop may be silent; its longest wait and call, and then some */
  constructor(clock: Clock, allowedMs: Readonly<Record<string, number>>) {
    this.#clock = clock;
    this.#allowedMs = allowedMs;
    for (const loop of Object.keys(allowedMs)) this.#beats.set(loop, clock.now());
  }

  beat(loop: string): void {
    this.#beats.set(loop, this.#clock.now());
  }

  alive(): Verdict {
    const now = this.#clock.now();
    const reasons: string[] = [];
    for (const [loop, at] of this.#beats) {
      const allowed = this.#allowedMs[loop] ?? Infinity;
      if (now - at > allowed)
        reasons.push(`the ${loop} loop has not come round for ${Math.round((now - at) / 1_000)} s`);
    }
    return { ok: reasons.length === 0, reasons };
  }
}

export interface ReadinessFacts {
  readonly synced: boolean;
  /** The queue's current trouble in words. */
  readonly problem: string | undefined;
  readonly unauthorized: boolean;
  /** Why admission is paused: reason and detail. */
  readonly pauses: ReadonlyMap<string, string>;
  /** Why the index cannot be saved. */
  readonly indexTrouble: string | undefined;
  /** Sessions whose sandbox is kept because the platform has no archives for this account. */
  readonly keptForWant: number;
}

/** Ready: the queue has been seen whole, credentials are accepted, and what we do can be written down. */
export function readiness(facts: ReadinessFacts): Verdict {
  const reasons: string[] = [];
  if (!facts.synced) {
    reasons.push(`the queue has not been read yet${facts.problem === undefined ? '' : `: ${facts.problem}`}`);
  }
  if (facts.unauthorized) reasons.push('Devin refuses DEVIN_OUTPOSTS_TOKEN');
  if (facts.indexTrouble !== undefined) reasons.push(`the index cannot be saved: ${facts.indexTrouble}`);
  for (const [reason, detail] of facts.pauses) {
    if (reason === 'platform-credentials')
      reasons.push(`the sandbox platform refuses our credentials: ${detail}`);
    if (reason === 'platform-request')
      reasons.push(`the sandbox platform refuses our kind of sandbox: ${detail}`);
    if (reason === 'starting') reasons.push('the sandboxes have not been listed yet');
    if (reason === 'stopping') reasons.push('the daemon is stopping');
  }
  const ok = reasons.length === 0;
  if (facts.keptForWant > 0) {
    reasons.push(
      `degraded: no archives for this account; sandboxes kept instead, until their lifetime ends: ${facts.keptForWant}`,
    );
  }
  return { ok, reasons };
}
