/** How full the daemon was over the last hour: a ring of samples in memory, enough for a small chart. */
import type { LoadSample } from './view.ts';

const HOUR_MS = 3_600_000;
/** 240 samples an hour: one for every few pixels of the chart. */
const EVERY_MS = 15_000;

export class Load {
  #samples: readonly LoadSample[] = [];

  /** Oldest first. */
  get samples(): readonly LoadSample[] {
    return this.#samples;
  }

  isDue(now: number): boolean {
    const last = this.#samples.at(-1);
    // A clock that was set back must not end the sampling.
    return last === undefined || Math.abs(now - last.at) >= EVERY_MS;
  }

  add(sample: LoadSample): void {
    this.#samples = [...this.#samples.filter(({ at }) => Math.abs(sample.at - at) < HOUR_MS), sample];
  }
}
