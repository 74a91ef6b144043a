/** The watch cursor: moved on in memory with each processed event, on disk about once a second, never emptied. */
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';

export interface CursorStore {
  load(): Promise<string | undefined>;
  save(cursor: string): Promise<void>;
}

export interface CursorKeeperOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly cursor: CursorStore;
}

const SAVE_EVERY_MS = 1_000;

export class CursorKeeper {
  readonly #options: CursorKeeperOptions;
  #value: string | undefined;
  #saved: string | undefined;
  #saveDue = false;
  #closed = false;

  constructor(options: CursorKeeperOptions) {
    this.#options = options;
  }

  get value(): string | undefined {
    return this.#value;
  }

  async load(): Promise<void> {
    const { cursor, log } = this.#options;
    try {
      this.#value = await cursor.load();
      this.#saved = this.#value;
    } catch (error) {
      log.warn('watch cursor not readable; starting from a complete list', { error: describeError(error) });
    }
  }

  /** False when it is where it was. */
  advance(cursor: string): boolean {
    if (cursor === this.#value) return false;
    this.#value = cursor;
    if (!this.#saveDue) void this.#saveLater();
    return true;
  }

  /** Saves once more, and never again: the next daemon may be at work in the folder already. */
  async close(): Promise<void> {
    await this.#save();
    this.#closed = true;
  }

  async #saveLater(): Promise<void> {
    this.#saveDue = true;
    await this.#options.clock.sleep(SAVE_EVERY_MS);
    this.#saveDue = false;
    await this.#save();
  }

  async #save(): Promise<void> {
    const value = this.#value;
    if (this.#closed || value === undefined || value === this.#saved) return;
    try {
      await this.#options.cursor.save(value);
      this.#saved = value;
    } catch (error) {
      // An old cursor costs repeated events, no more.
      this.#options.log.warn('watch cursor not saved', { error: describeError(error) });
    }
  }
}
