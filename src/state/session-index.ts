/**
 * The durable memory: STATE_DIR/sandbox_index.json, one document, replaced whole. Many changes share one write (group
 * commit); a caller that needs durability awaits `commit`. Knows the shape of a record, not its meaning.
 */
import { join } from 'node:path';
import { WATCH_BACKOFF, backoffMs } from '../lib/backoff.ts';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { FailureHistory, SessionRecord } from '../session/session.ts';
import type { SandboxName } from '../sandboxes/names.ts';
import type { Disk } from './disk.ts';
import { readIndex, type IndexOrigin, type IndexOwner } from './index-file.ts';
import { Table } from './table.ts';

export interface SessionIndex {
  get(name: SandboxName): SessionRecord | undefined;
  entries(): IterableIterator<[SandboxName, SessionRecord]>;
  readonly size: number;
  /** In memory at once; on disk with the next commit. A record that differs in `updatedAt` only is not a change. */
  put(name: SandboxName, record: SessionRecord): void;
  delete(name: SandboxName): void;
  failures(name: SandboxName): FailureHistory | undefined;
  histories(): IterableIterator<[SandboxName, FailureHistory]>;
  putFailures(name: SandboxName, history: FailureHistory): void;
  clearFailures(name: SandboxName): void;
  /**
   * Resolves when every change made before the call is on disk. Callers at the same time share one write.
   * @throws DvoError `state`; the change stays in memory and goes with the next commit
   */
  commit(): Promise<void>;
  /** Undefined while commits succeed, else why the last one failed. No new claims while it is set. */
  readonly trouble: string | undefined;
}

export interface IndexOptions extends IndexOwner {
  readonly disk: Disk;
  readonly stateDir: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onCommit?: (result: 'ok' | 'failed', tookMs: number) => void;
}

/** Changes that nobody waits for are on disk this much later. */
const LAZY_COMMIT_MS = 200;

/**
 * Reads the index, or sets a damaged one aside and starts an empty one (`rebuilding`).
 * @throws DvoError `state` when the file belongs to another outpost, acceptor or version, or cannot be read at all
 */
export async function openSessionIndex(
  options: IndexOptions,
): Promise<{ readonly index: SessionIndex; readonly origin: IndexOrigin }> {
  const path = join(options.stateDir, 'sandbox_index.json');
  const { disk, clock, log, outpostId, acceptorId } = options;
  const read = await readIndex({ disk, clock, log, path, outpostId, acceptorId });
  const index = new FileIndex(options, path, read.sessions, read.failures);
  // The file that held them lies aside: until they are written again, they stand in memory only.
  if (read.origin === 'rebuilding') index.rewrite();
  return { index, origin: read.origin };
}

class FileIndex implements SessionIndex {
  readonly #options: IndexOptions;
  readonly #path: string;
  readonly #sessions: Table<SessionRecord>;
  readonly #failures: Table<FailureHistory>;
  /** Counts changes; a write covers those up to the count it started with. */
  #changes = 0;
  #durable = 0;
  #writing: Promise<void> | undefined;
  #lazy = false;
  #failedWrites = 0;
  #trouble: string | undefined;

  constructor(
    options: IndexOptions,
    path: string,
    sessions: Table<SessionRecord>,
    failures: Table<FailureHistory>,
  ) {
    this.#options = options;
    this.#path = path;
    this.#sessions = sessions;
    this.#failures = failures;
  }

  /** Writes everything again, though nothing has changed. */
  rewrite(): void {
    this.#changed(true);
  }

  get size(): number {
    return this.#sessions.size;
  }

  get trouble(): string | undefined {
    return this.#trouble;
  }

  get(name: SandboxName): SessionRecord | undefined {
    return this.#sessions.get(name);
  }

  entries(): IterableIterator<[SandboxName, SessionRecord]> {
    return this.#sessions.entries();
  }

  put(name: SandboxName, record: SessionRecord): void {
    this.#changed(this.#sessions.put(name, record));
  }

  delete(name: SandboxName): void {
    this.#changed(this.#sessions.delete(name));
  }

  failures(name: SandboxName): FailureHistory | undefined {
    return this.#failures.get(name);
  }

  histories(): IterableIterator<[SandboxName, FailureHistory]> {
    return this.#failures.entries();
  }

  putFailures(name: SandboxName, history: FailureHistory): void {
    this.#changed(this.#failures.put(name, history));
  }

  clearFailures(name: SandboxName): void {
    this.#changed(this.#failures.delete(name));
  }

  async commit(): Promise<void> {
    const wanted = this.#changes;
    while (this.#durable < wanted) {
      // A write in progress may have started before our change; then the next one is ours, shared with all who wait.
      this.#writing ??= this.#write();
      await this.#writing;
    }
  }

  async #write(): Promise<void> {
    const { disk, clock, onCommit } = this.#options;
    // What else changes in this turn goes with it.
    await Promise.resolve();
    const covered = this.#changes;
    const startedAt = clock.now();
    try {
      await disk.replace(this.#path, this.#bytes());
      this.#durable = covered;
      this.#recovered();
      onCommit?.('ok', clock.now() - startedAt);
    } catch (error) {
      this.#troubled(error);
      onCommit?.('failed', clock.now() - startedAt);
      throw error;
    } finally {
      this.#writing = undefined;
    }
  }

  #bytes(): Uint8Array {
    const { outpostId, acceptorId } = this.#options;
    const head = `"version":1,"outpostId":${JSON.stringify(outpostId)},"acceptorId":${JSON.stringify(acceptorId)}`;
    return Buffer.concat([
      Buffer.from(`{${head},"sessions":`),
      ...this.#sessions.json(),
      Buffer.from(',"failures":'),
      ...this.#failures.json(),
      Buffer.from('}\n'),
    ]);
  }

  #changed(really: boolean): void {
    if (!really) return;
    this.#changes += 1;
    if (!this.#lazy) void this.#commitLater();
  }

  async #commitLater(): Promise<void> {
    const { clock } = this.#options;
    this.#lazy = true;
    while (this.#durable < this.#changes) {
      const { firstMs, ...rest } = WATCH_BACKOFF;
      const wait =
        this.#failedWrites === 0 ? LAZY_COMMIT_MS : backoffMs({ firstMs, ...rest }, this.#failedWrites, 1);
      await clock.sleep(wait);
      try {
        await this.commit();
      } catch {
        // Noted as trouble; tried again with a growing wait.
        this.#failedWrites += 1;
      }
    }
    this.#lazy = false;
  }

  #troubled(error: unknown): void {
    const message = describeError(error);
    if (this.#trouble === undefined) {
      this.#options.log.error('index cannot be saved: no session is claimed until it can', {
        error: message,
      });
    }
    this.#trouble = message;
  }

  #recovered(): void {
    this.#failedWrites = 0;
    if (this.#trouble === undefined) return;
    this.#trouble = undefined;
    this.#options.log.info('index saved again');
  }
}
