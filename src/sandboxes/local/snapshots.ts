/** Archives of local volumes: tar files beside a small record. */
import { execFile } from 'node:child_process';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Clock, Random } from '../../lib/clock.ts';
import { describeError } from '../../lib/errors.ts';
import { ProviderError, type SnapshotInfo } from '../provider.ts';
import { startTimeOf } from './processes.ts';
import { namesIn, readEntry, SNAPSHOT_FILE, writeEntry, type SnapshotFile } from './store.ts';

const tar = promisify(execFile);

export interface SnapshotStoreOptions {
  readonly folder: string;
  /** For records that are being written. */
  readonly making: string;
  readonly clock: Clock;
  readonly random: Random;
}

export class SnapshotStore {
  readonly #options: SnapshotStoreOptions;

  constructor(options: SnapshotStoreOptions) {
    this.#options = options;
  }

  /** Goes on to its end even when nobody waits any more, as the platform's do. */
  async make(sourceSandboxId: string, volume: string): Promise<SnapshotInfo> {
    const { clock, random } = this.#options;
    const id = `snap-${random.id().slice(0, 16)}`;
    const startTime = (await startTimeOf(process.pid)) ?? '';
    const record: SnapshotFile = {
      id,
      state: 'creating',
      sourceSandboxId,
      createdAt: clock.now(),
      writer: { pid: process.pid, startTime },
    };
    await this.#write(record);
    const part = `${this.#tar(id)}.part`;
    try {
      await this.#pack(volume, part);
      await rename(part, this.#tar(id));
      const { size } = await stat(this.#tar(id));
      await this.#write({ ...record, state: 'ready', sizeBytes: size });
    } catch (error) {
      await rm(part, { force: true });
      const reason = describeError(error);
      await this.#write({ ...record, state: 'failed', reason });
      throw new ProviderError('archive-failed', `archive of ${sourceSandboxId} failed: ${reason}`, {
        cause: error,
      });
    }
    return await this.get(id);
  }

  /** Fills `volume`. @throws ProviderError `not-found` (reason `snapshot`), `archive-failed` */
  async restore(id: string, volume: string): Promise<void> {
    const snapshot = await this.get(id);
    if (snapshot.state !== 'ready') {
      throw new ProviderError('archive-failed', `archive ${id} is ${snapshot.state}`, { reason: 'snapshot' });
    }
    try {
      await tar('tar', ['-xpf', this.#tar(id), '-C', volume, '--numeric-owner']);
    } catch (error) {
      throw new ProviderError('archive-failed', `archive ${id} cannot be restored`, {
        reason: 'snapshot',
        cause: error,
      });
    }
  }

  async get(id: string): Promise<SnapshotInfo> {
    const record = /^[\w-]+$/.test(id) ? await readEntry(this.#record(id), SNAPSHOT_FILE) : undefined;
    if (record === undefined)
      throw new ProviderError('not-found', `no archive ${id}`, { reason: 'snapshot' });
    return await toInfo(record);
  }

  async of(sourceSandboxId: string): Promise<readonly SnapshotInfo[]> {
    const found: SnapshotInfo[] = [];
    for (const name of await namesIn(this.#options.folder)) {
      if (!name.endsWith('.json')) continue;
      const record = await readEntry(join(this.#options.folder, name), SNAPSHOT_FILE);
      if (record?.sourceSandboxId === sourceSandboxId) found.push(await toInfo(record));
    }
    return found;
  }

  async delete(id: string): Promise<void> {
    if (!/^[\w-]+$/.test(id)) return;
    // The record first: an archive without one is never restored.
    for (const path of [this.#record(id), this.#tar(id), `${this.#tar(id)}.part`])
      await rm(path, { force: true });
  }

  async #pack(volume: string, into: string): Promise<void> {
    try {
      await tar('tar', ['-cf', into, '--numeric-owner', '--sparse', '-C', volume, '.']);
    } catch (error) {
      // Exit code 1: a file changed while it was read, as files in use do. The archive is whole.
      if (!(error instanceof Error && 'code' in error && error.code === 1)) throw error;
    }
  }

  async #write(record: SnapshotFile): Promise<void> {
    const { making, random } = this.#options;
    await writeEntry(this.#record(record.id), record, making, random.id().slice(0, 8));
  }

  #record(id: string): string {
    return join(this.#options.folder, `${id}.json`);
  }

  #tar(id: string): string {
    return join(this.#options.folder, `${id}.tar`);
  }
}

async function toInfo(record: SnapshotFile): Promise<SnapshotInfo> {
  const { id, sourceSandboxId, createdAt, sizeBytes, writer } = record;
  const orphaned = record.state === 'creating' && (await startTimeOf(writer.pid)) !== writer.startTime;
  const reason = orphaned ? 'the process that wrote it ended' : record.reason;
  return {
    id,
    state: orphaned ? 'failed' : record.state,
    sourceSandboxId,
    createdAt,
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(reason === undefined ? {} : { reason }),
  };
}
