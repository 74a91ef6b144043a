/**
 * Runs one function per key: never twice at once for one key; a wake-up during a run means one more run after it;
 * of two times for one key the earlier wins. It knows nothing of sessions.
 */
import type { Clock } from '../lib/clock.ts';

export interface WorkqueueOptions {
  readonly clock: Clock;
  /** One pass over a key. Answers when to look again (milliseconds since the epoch), or undefined: when woken. */
  readonly run: (key: string) => Promise<number | undefined>;
  /** `run` threw, which it should not: the key is run again after `retryMs`. */
  readonly onError: (key: string, error: unknown) => void;
  readonly retryMs: number;
}

interface Lane {
  running: boolean;
  again: boolean;
  /** The pending timer, and when it is due. */
  timer: { readonly at: number; readonly cancel: AbortController } | undefined;
}

export class Workqueue {
  readonly #options: WorkqueueOptions;
  readonly #lanes = new Map<string, Lane>();
  readonly #runs = new Set<Promise<void>>();
  #stopped = false;

  constructor(options: WorkqueueOptions) {
    this.#options = options;
  }

  /** How many keys have a run in progress or a timer. */
  get size(): number {
    return this.#lanes.size;
  }

  /** Runs the key now, or once more after the run in progress. */
  add(key: string): void {
    if (this.#stopped) return;
    const lane = this.#lane(key);
    if (lane.running) {
      lane.again = true;
      return;
    }
    this.#disarm(lane);
    lane.running = true;
    const run = this.#run(key, lane).finally(() => this.#runs.delete(run));
    this.#runs.add(run);
  }

  /** Starts no further run, and resolves when those in progress have ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const lane of this.#lanes.values()) this.#disarm(lane);
    await Promise.all(this.#runs);
    this.#lanes.clear();
  }

  async #run(key: string, lane: Lane): Promise<void> {
    // The caller of add() must not run the pass in its own stack.
    await Promise.resolve();
    do {
      lane.again = false;
      const next = await this.#pass(key);
      if (this.#stopped) break;
      if (next !== undefined && !lane.again) this.#arm(key, lane, next);
    } while (lane.again);
    lane.running = false;
    if (lane.timer === undefined) this.#lanes.delete(key);
  }

  async #pass(key: string): Promise<number | undefined> {
    try {
      return await this.#options.run(key);
    } catch (error) {
      this.#options.onError(key, error);
      return this.#options.clock.now() + this.#options.retryMs;
    }
  }

  #arm(key: string, lane: Lane, at: number): void {
    const cancel = new AbortController();
    lane.timer = { at, cancel };
    const { clock } = this.#options;
    void clock.sleep(at - clock.now(), cancel.signal).then(
      () => {
        lane.timer = undefined;
        this.add(key);
      },
      // Disarmed: somebody woke the key earlier.
      () => undefined,
    );
  }

  #disarm(lane: Lane): void {
    lane.timer?.cancel.abort();
    lane.timer = undefined;
  }

  #lane(key: string): Lane {
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane: Lane = { running: false, again: false, timer: undefined };
    this.#lanes.set(key, lane);
    return lane;
  }
}
