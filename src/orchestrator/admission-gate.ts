/**
 * Slots and pauses: whether a further session may be taken on now. A slot belongs to a record whose stage has or is
 * getting a machine, so slots are the size of a set and cannot leak; reserving one is writing the record, in the same
 * turn as the check, so the limit is not passed for a moment.
 */
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import { isProviderError } from '../sandboxes/provider.ts';
import type { Recorder } from './recorder.ts';
import type { Records } from './records.ts';

/** Why nothing new is admitted at all. Each is cleared by the first success of what it waits for. */
export type Pause =
  | 'starting' // queue and platform have not both been seen whole since the start
  | 'devin-credentials'
  | 'platform-credentials'
  | 'platform-request' // the platform refuses to make sandboxes: image, size, secrets, runner, rights
  | 'state' // the index cannot be saved
  | 'stopping';

/** Part of every start and stop: said by other lines already. */
const ROUTINE: ReadonlySet<Pause> = new Set(['starting', 'stopping']);

export interface AdmissionGateOptions {
  readonly index: Records;
  readonly maxSessions: number;
  readonly log: Logger;
  readonly recorder: Recorder;
  /** Called when admission has become possible again. */
  readonly onOpen: () => void;
}

export class AdmissionGate {
  readonly #options: AdmissionGateOptions;
  readonly #pauses = new Map<Pause, string>();
  #onTrial = false;

  constructor(options: AdmissionGateOptions) {
    this.#options = options;
  }

  get pauses(): ReadonlyMap<Pause, string> {
    return this.#pauses;
  }

  /** Closes admission until `resume` with the same reason. `detail` is for people. */
  pause(reason: Pause, detail: string): void {
    if (this.#pauses.get(reason) === detail) return;
    const isNew = !this.#pauses.has(reason);
    this.#pauses.set(reason, detail);
    if (!isNew) return;
    this.#options.recorder.admissionPaused(reason, 'paused');
    if (!ROUTINE.has(reason)) this.#options.log.warn('admission paused', { reason, detail });
  }

  /** Closes admission when `error` says that the platform refuses our credentials. */
  noteRefusedKey(error: unknown): void {
    if (isProviderError(error, 'unauthenticated')) this.pause('platform-credentials', describeError(error));
  }

  resume(reason: Pause): void {
    if (!this.#pauses.delete(reason)) return;
    this.#options.recorder.admissionPaused(reason, 'open');
    this.#options.log.info('admission resumed', { reason });
    if (this.#pauses.size === 0) this.#options.onOpen();
  }

  /** Whether sandboxes can be made again is for one session to find out, not for all that wait. */
  tryOne(): void {
    this.#onTrial = true;
    this.resume('platform-request');
  }

  /** A sandbox has been made. */
  noteCreated(): void {
    const wasOnTrial = this.#onTrial;
    this.#onTrial = false;
    this.resume('platform-request');
    if (wasOnTrial) this.#options.onOpen();
  }

  get used(): number {
    return this.#options.index.atWork.size;
  }

  get max(): number {
    return this.#options.maxSessions;
  }

  /** Slots for sessions that are not being served yet; 0 while admission is paused. */
  get free(): number {
    if (this.#pauses.size > 0 || this.#options.index.trouble !== undefined) return 0;
    const { claimed, provisioning } = this.#options.index.stages;
    if (this.#onTrial && claimed + provisioning > 0) return 0;
    const free = Math.max(0, this.#options.maxSessions - this.used);
    return this.#onTrial ? Math.min(1, free) : free;
  }
}
