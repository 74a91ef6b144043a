/**
 * The embedded provider: each sandbox is a private folder and the processes started in it. For trying dvo out and for
 * its tests. It isolates nothing: config refuses it against a real Devin.
 *
 * Processes outlive the daemon, and the registry is on disk, so a restarted daemon finds everything as it was.
 */
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock, Random } from '../../lib/clock.ts';
import { withDeadline, type Call } from '../../lib/deadline.ts';
import { systemCode } from '../../lib/errors.ts';
import {
  ProviderError,
  type AttachableProvider,
  type Attached,
  type AttachRequest,
  type AttachSinks,
  type CreateRequest,
  type ExecRequest,
  type ExecResult,
  type LogsOptions,
  type SandboxInfo,
  type SandboxQuery,
  type SnapshotInfo,
} from '../provider.ts';
import { attachTo } from './attach.ts';
import { followLog } from './log-file.ts';
import { kill, processesOf } from './processes.ts';
import { run } from './run.ts';
import { SnapshotStore } from './snapshots.ts';
import {
  namesIn,
  openLayout,
  readEntry,
  SANDBOX_FILE,
  touchedAt,
  writeEntry,
  type Layout,
  type SandboxFile,
} from './store.ts';

export interface LocalOptions {
  /** Folder of the provider's own; made when missing. */
  readonly root: string;
  readonly clock: Clock;
  readonly random: Random;
  /** PATH inside the sandboxes. */
  readonly path: string;
}

/** Ended sandboxes are remembered this long, as the platform does for a while. */
const REMEMBER_ENDED_MS = 24 * 3_600_000;
/** No create takes this long. */
const HALF_MADE_MS = 600_000;
const KILL_LOOK_MS = 10;

export async function createLocalProvider(options: LocalOptions): Promise<AttachableProvider> {
  const layout = await openLayout(options.root);
  const provider = new LocalProvider(options, layout);
  await provider.recover();
  return provider;
}

class LocalProvider implements AttachableProvider {
  readonly name = 'local';
  readonly capabilities = { egressRules: false, listLagMs: 0 };
  readonly #options: LocalOptions;
  readonly #layout: Layout;
  readonly #snapshots: SnapshotStore;

  constructor(options: LocalOptions, layout: Layout) {
    this.#options = options;
    this.#layout = layout;
    this.#snapshots = new SnapshotStore({ ...options, folder: layout.snapshots, making: layout.making });
  }

  /** Finishes what a killed daemon left half done: sandboxes on their way out, and those that were never finished. */
  async recover(): Promise<void> {
    for (const name of await namesIn(this.#layout.making)) {
      const path = join(this.#layout.making, name);
      const touched = await touchedAt(path);
      // Another daemon may be making one right now, or have finished it since.
      if (touched !== undefined && this.#options.clock.now() - touched > HALF_MADE_MS)
        await rm(path, { recursive: true, force: true });
    }
    for (const id of await namesIn(this.#layout.sandboxes)) {
      const file = await this.#file(id);
      if (file?.state === 'ending') await this.#tearDown(file, new AbortController().signal);
    }
    const horizon = this.#options.clock.now() - REMEMBER_ENDED_MS;
    for (const name of await namesIn(this.#layout.ended)) {
      const file = await readEntry(join(this.#layout.ended, name), SANDBOX_FILE);
      if (file === undefined || file.startedAt < horizon)
        await rm(join(this.#layout.ended, name), { force: true });
    }
  }

  async list(query: SandboxQuery, call: Call): Promise<readonly SandboxInfo[]> {
    return await this.#bounded('list sandboxes', call, async () => {
      const found: SandboxInfo[] = [];
      for (const id of await namesIn(this.#layout.sandboxes)) {
        const file = await this.#file(id);
        if (file !== undefined && hasAll(file, query.tags)) found.push(this.#info(file));
      }
      if (query.include === 'active') return found;
      for (const name of await namesIn(this.#layout.ended)) {
        const file = await readEntry(join(this.#layout.ended, name), SANDBOX_FILE);
        if (file !== undefined && hasAll(file, query.tags)) found.push(this.#info(file));
      }
      return found;
    });
  }

  async get(id: string, call: Call): Promise<SandboxInfo> {
    return await this.#bounded('get sandbox', call, async () => {
      const file = (await this.#file(id)) ?? (await this.#endedFile(id));
      if (file === undefined) throw new ProviderError('not-found', `no sandbox ${id}`);
      return this.#info(file);
    });
  }

  async create(request: CreateRequest, call: Call): Promise<SandboxInfo> {
    const { clock, random } = this.#options;
    if (request.egress !== undefined)
      throw new ProviderError('unsupported', 'local sandboxes have no egress rules');
    return await this.#bounded('create sandbox', call, async () => {
      const id = `local-${random.id().slice(0, 16)}`;
      const making = join(this.#layout.making, id);
      for (const part of ['volume', 'run', 'tmp', 'home']) {
        await mkdir(join(making, part), { recursive: true, mode: 0o700 });
      }
      try {
        if (request.restoreFrom !== undefined)
          await this.#snapshots.restore(request.restoreFrom, join(making, 'volume'));
        await writeFile(join(making, 'run', 'boot-id'), `${random.id()}\n`);
        const file: SandboxFile = { id, tags: [...request.tags], state: 'running', startedAt: clock.now() };
        await writeEntry(join(making, 'sandbox.json'), file, this.#layout.making, id);
        // From here on it exists; before, it never did.
        await rename(making, this.#folder(id));
        return this.#info(file);
      } catch (error) {
        await rm(making, { recursive: true, force: true });
        throw error;
      }
    });
  }

  async exec(id: string, request: ExecRequest, call: Call): Promise<ExecResult> {
    const { clock } = this.#options;
    return await withDeadline(clock, 'exec', call, async (signal) => {
      await this.#running(id);
      return await run(request, { clock, ...this.#surroundings(id), signal });
    });
  }

  async attach(
    id: string,
    request: AttachRequest,
    sinks: AttachSinks,
    signal: AbortSignal,
  ): Promise<Attached> {
    await this.#running(id);
    const { clock, random } = this.#options;
    const ttyFile = join(this.#folder(id), 'tmp', `tty-${random.id().slice(0, 8)}`);
    return attachTo(request, sinks, { clock, ...this.#surroundings(id), ttyFile, signal });
  }

  async readFile(id: string, path: string, call: Call): Promise<Uint8Array> {
    return await this.#bounded('read file', call, async () => {
      await this.#running(id);
      try {
        return await readFile(path);
      } catch (error) {
        throw noFile(path, error);
      }
    });
  }

  async download(id: string, path: string, localPath: string, call: Call): Promise<void> {
    await this.#bounded('download', call, async () => {
      await this.#running(id);
      try {
        await copyFile(path, localPath);
      } catch (error) {
        throw noFile(path, error);
      }
    });
  }

  async writeFile(id: string, path: string, content: Uint8Array, call: Call): Promise<void> {
    await this.#put('write file', id, path, call, (temporary) => writeFile(temporary, content));
  }

  async upload(id: string, localPath: string, path: string, call: Call): Promise<void> {
    await this.#put('upload', id, path, call, (temporary) => copyFile(localPath, temporary));
  }

  async snapshot(id: string, call: Call): Promise<SnapshotInfo> {
    return await this.#bounded('archive', call, async () => {
      await this.#running(id);
      return await this.#snapshots.make(id, join(this.#folder(id), 'volume'));
    });
  }

  async snapshots(sourceSandboxId: string, call: Call): Promise<readonly SnapshotInfo[]> {
    return await this.#bounded('list archives', call, () => this.#snapshots.of(sourceSandboxId));
  }

  async getSnapshot(snapshotId: string, call: Call): Promise<SnapshotInfo> {
    return await this.#bounded('get archive', call, () => this.#snapshots.get(snapshotId));
  }

  async deleteSnapshot(snapshotId: string, call: Call): Promise<void> {
    await this.#bounded('delete archive', call, () => this.#snapshots.delete(snapshotId));
  }

  async destroy(id: string, call: Call): Promise<void> {
    await withDeadline(this.#options.clock, 'destroy sandbox', call, async (signal) => {
      const file = await this.#file(id);
      if (file !== undefined) await this.#tearDown(file, signal);
    });
  }

  logs(id: string, options: LogsOptions, signal: AbortSignal): AsyncIterable<string> {
    if (options.since !== undefined)
      throw new ProviderError('unsupported', 'local sandboxes keep no times of their log lines');
    const alive = async (): Promise<boolean> => (await this.#file(id))?.state === 'running';
    return followLog(join(this.#folder(id), 'run', 'session.log'), {
      ...options,
      clock: this.#options.clock,
      alive,
      signal,
    });
  }

  async close(): Promise<void> {}

  async #tearDown(file: SandboxFile, signal: AbortSignal): Promise<void> {
    const { random, clock } = this.#options;
    const folder = this.#folder(file.id);
    const unique = random.id().slice(0, 8);
    const { making, ended } = this.#layout;
    await writeEntry(join(folder, 'sandbox.json'), { ...file, state: 'ending' }, making, unique);
    for (;;) {
      const alive = await processesOf(folder);
      if (alive.length === 0) break;
      await kill(alive);
      await clock.sleep(KILL_LOOK_MS, signal);
    }
    await writeEntry(join(ended, `${file.id}.json`), { ...file, state: 'ended' }, making, unique);
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async #put(
    operation: string,
    id: string,
    path: string,
    call: Call,
    write: (temporary: string) => Promise<void>,
  ): Promise<void> {
    await this.#bounded(operation, call, async () => {
      await this.#running(id);
      const temporary = `${path}.${this.#options.random.id().slice(0, 8)}.tmp`;
      await mkdir(dirname(path), { recursive: true });
      await write(temporary);
      await rename(temporary, path);
    });
  }

  async #running(id: string): Promise<void> {
    const file = await this.#file(id);
    if (file?.state === 'running') return;
    if (file !== undefined || (await this.#endedFile(id)) !== undefined) {
      throw new ProviderError('gone', `sandbox ${id} has ended`);
    }
    throw new ProviderError('not-found', `no sandbox ${id}`);
  }

  async #bounded<T>(operation: string, call: Call, work: () => Promise<T>): Promise<T> {
    return await withDeadline(this.#options.clock, operation, call, () => work());
  }

  async #file(id: string): Promise<SandboxFile | undefined> {
    return isId(id) ? await readEntry(join(this.#folder(id), 'sandbox.json'), SANDBOX_FILE) : undefined;
  }

  async #endedFile(id: string): Promise<SandboxFile | undefined> {
    return isId(id) ? await readEntry(join(this.#layout.ended, `${id}.json`), SANDBOX_FILE) : undefined;
  }

  /** Where a command starts, and all that it is given of this machine's environment. */
  #surroundings(id: string) {
    const folder = this.#folder(id);
    const env = {
      PATH: this.#options.path,
      HOME: join(folder, 'home'),
      TMPDIR: join(folder, 'tmp'),
      USER: 'dvo',
      LOGNAME: 'dvo',
      LANG: 'C.UTF-8',
    };
    return { cwd: join(folder, 'volume'), env };
  }

  #folder(id: string): string {
    return join(this.#layout.sandboxes, id);
  }

  #info(file: SandboxFile): SandboxInfo {
    const folder = this.#folder(file.id);
    const paths = { volume: join(folder, 'volume'), run: join(folder, 'run') };
    return { id: file.id, state: file.state, startedAt: file.startedAt, paths };
  }
}

/** A path that leads nowhere is the caller's to hear of; anything else is the disk's own failure. */
function noFile(path: string, error: unknown): unknown {
  if (systemCode(error) !== 'ENOENT' && systemCode(error) !== 'ENOTDIR') return error;
  return new ProviderError('not-found', `no file ${path}`, { reason: 'file', cause: error });
}

function isId(id: string): boolean {
  return /^local-[0-9a-f]+$/.test(id);
}

function hasAll(file: SandboxFile, tags: readonly string[]): boolean {
  return tags.every((tag) => file.tags.includes(tag));
}
