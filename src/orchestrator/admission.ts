/** Turns free slots into claimed sessions, oldest first. The rules of who may be claimed are session/admission.ts. */
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { Queue } from '../outposts/queue.ts';
import type { SandboxName } from '../sandboxes/names.ts';
import { admission, type Admission, type AdmissionRules, type Refusal } from '../session/admission.ts';
import { amend, enter, newRecord } from '../session/amend.ts';
import type { FailureHistory, QueueEntry } from '../session/session.ts';
import type { AdmissionGate } from './admission-gate.ts';
import type { Recorder } from './recorder.ts';
import type { Records } from './records.ts';

export interface AdmissionOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly recorder: Recorder;
  readonly queue: Queue;
  readonly index: Records;
  readonly gate: AdmissionGate;
  readonly rules: AdmissionRules;
  readonly nameOf: (sessionId: string) => SandboxName;
  /** A slot was reserved for the session: its lane goes on from there. */
  readonly onAdmitted: (sessionId: string) => void;
}

export class Admissions {
  readonly #options: AdmissionOptions;
  /** Refusals already said, so that each is logged and counted once while it lasts. */
  readonly #said = new Map<string, Refusal>();
  #queued = false;

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Asks for a round. Any number of calls in one turn make one round. */
  request(): void {
    if (this.#queued) return;
    this.#queued = true;
    void Promise.resolve().then(() => {
      this.#queued = false;
      this.#round();
    });
  }

  /** The entry changed or left: what was said of it may be said again. */
  forget(sessionId: string): void {
    this.#said.delete(sessionId);
  }

  /** Whether the session would be taken on if there were room; `served`: it has been. */
  verdict(entry: QueueEntry): Admission | 'served' {
    const { index, nameOf, clock, rules } = this.#options;
    const name = nameOf(entry.sessionId);
    const record = index.get(name);
    if (record !== undefined && record.stage !== 'suspended') return 'served';
    return admission(entry, index.failures(name), clock.now(), rules);
  }

  /** What is remembered of a session that keeps failing. */
  failures(sessionId: string): FailureHistory | undefined {
    const { index, nameOf } = this.#options;
    return index.failures(nameOf(sessionId));
  }

  #round(): void {
    const { queue, gate, nameOf } = this.#options;
    let free = gate.free;
    if (free === 0) return;
    for (const entry of queue.available()) {
      if (free === 0) return;
      const verdict = this.verdict(entry);
      if (verdict === 'served') continue;
      if (verdict.kind === 'refused') {
        this.#sayOnce(entry, verdict.refusal);
        continue;
      }
      this.#said.delete(entry.sessionId);
      this.#reserve(nameOf(entry.sessionId), entry);
      free -= 1;
    }
  }

  /** The slot is taken in the turn in which it was seen free. */
  #reserve(name: SandboxName, entry: QueueEntry): void {
    const { index, clock, onAdmitted } = this.#options;
    const now = clock.now();
    const asleep = index.get(name);
    const attempt = (asleep?.attempt ?? 0) + 1;
    const record =
      asleep === undefined
        ? newRecord(entry, 'claimed', attempt, now)
        : amend(asleep, enter('claimed', now, { set: { attempt, claimKind: entry.kind, launches: 0 } }), now);
    index.put(name, record);
    onAdmitted(entry.sessionId);
  }

  #sayOnce(entry: QueueEntry, refusal: Refusal): void {
    const { log, recorder } = this.#options;
    if (this.#said.get(entry.sessionId) === refusal) return;
    this.#said.set(entry.sessionId, refusal);
    recorder.refused(refusal);
    log.info('session not claimed', { session: entry.sessionId, why: refusal, platform: entry.platform });
  }
}
