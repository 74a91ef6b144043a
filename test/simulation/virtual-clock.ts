/**
 * Virtual time: a list of things that will happen, done one after the other. Between two of them every promise that
 * can go on has gone on. Things due at one moment happen in an order that the seed decides.
 */
import type { Clock } from '../../src/lib/clock.ts';
import { Draw } from './draw.ts';

/** One run of a daemon process. When it is dead nothing answers it any more. */
export interface Life {
  alive: boolean;
}

export interface Scheduled {
  cancel(): void;
}

interface Item {
  readonly at: number;
  readonly tie: number;
  run: (() => void) | undefined;
}

const START = Date.UTC(2026, 0, 1);

export class Scheduler {
  readonly #draw: Draw;
  readonly #heap: Item[] = [];
  #now = START;
  #done = 0;

  constructor(seed: number) {
    this.#draw = new Draw(seed, 'ties');
  }

  get now(): number {
    return this.#now;
  }

  /** Milliseconds since the world began. */
  get elapsed(): number {
    return this.#now - START;
  }

  /** How many things have happened. */
  get events(): number {
    return this.#done;
  }

  after(ms: number, run: () => void): Scheduled {
    if (!Number.isFinite(ms)) throw new Error(`a wait of ${ms} ms never ends`);
    const item: Item = { at: this.#now + Math.max(0, Math.ceil(ms)), tie: this.#draw.next(), run };
    this.#push(item);
    return {
      cancel: () => {
        item.run = undefined;
      },
    };
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Does the next thing, and lets every promise that can go on go on. False: nothing is left to happen. */
  async step(): Promise<boolean> {
    for (;;) {
      const item = this.#pop();
      if (item === undefined) return false;
      if (item.run === undefined) continue;
      this.#now = item.at;
      this.#done += 1;
      item.run();
      await settled();
      return true;
    }
  }

  #push(item: Item): void {
    const heap = this.#heap;
    heap.push(item);
    let at = heap.length - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(item, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = item;
  }

  #pop(): Item | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const left = heap[child];
      if (left === undefined) break;
      const right = heap[child + 1];
      let least = left;
      if (right !== undefined && isBefore(right, left)) {
        least = right;
        child += 1;
      }
      if (!isBefore(least, last)) break;
      heap[at] = least;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(left: Item, right: Item): boolean {
  return left.at === right.at ? left.tie < right.tie : left.at < right.at;
}

/** All promise reactions have run: Node empties their queue before the next turn of its loop. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

/** Passes the answer on unless its asker has died. */
export function whileAlive<T>(life: Life, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    answer.then(
      (value) => {
        if (life.alive) resolve(value);
      },
      (error: unknown) => {
        if (life.alive) reject(error);
      },
    );
  });
}

/** The clock of one daemon process. */
export function clockOf(scheduler: Scheduler, life: Life): Clock {
  return {
    now: () => scheduler.now,
    sleep(ms, signal) {
      if (!life.alive) return never();
      if (signal?.aborted === true) return Promise.reject(signal.reason);
      return new Promise((resolve, reject) => {
        const timer = scheduler.after(ms, () => {
          signal?.removeEventListener('abort', wake);
          if (life.alive) resolve();
        });
        const wake = (): void => {
          timer.cancel();
          if (life.alive) reject(signal?.reason);
        };
        signal?.addEventListener('abort', wake, { once: true });
      });
    },
  };
}
