/** The daemon's own copies of devin-remote, for sandboxes that cannot download: verified each time before they leave. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Random } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError, systemCode } from '../lib/errors.ts';
import type { Fetch } from '../lib/fetch.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import type { RemoteBinary } from './port.ts';
import { shareRuns } from './share-runs.ts';

export interface BinaryCacheOptions {
  readonly provider: SandboxProvider;
  readonly clock: Clock;
  readonly fetch: Fetch;
  readonly random: Random;
  readonly folder: string;
}

/** Builds kept on the daemon's disk: the pinned one, the latest, and one that is going out of use. */
const BUILDS = 3;
/** Several times the size of any build: a server that sends without end must not fill the daemon's disk. */
const LARGEST_BUILD_BYTES = 1_000_000_000;
/** No download takes this long: its daemon did not live to finish it. */
const ABANDONED_MS = 3_600_000;

export class BinaryCache {
  readonly #options: BinaryCacheOptions;
  /** One download for all who need the same build now; forgotten when done, because the disk is what counts. */
  readonly #running = new Map<string, Promise<string>>();

  constructor(options: BinaryCacheOptions) {
    this.#options = options;
  }

  /** @throws DvoError `distribution` when it cannot be had or does not match; what the upload throws */
  async upload(sandboxId: string, binary: RemoteBinary, path: string, call: Call): Promise<void> {
    const { provider, clock } = this.#options;
    const local = await withDeadline(clock, `download ${binary.url}`, call, async (signal) => {
      const found = await shareRuns(this.#running, binary.sha256, () => this.#local(binary, signal));
      this.#running.delete(binary.sha256);
      return found;
    });
    await provider.upload(sandboxId, local, path, call);
  }

  async #local(binary: RemoteBinary, signal: AbortSignal): Promise<string> {
    const { folder, random } = this.#options;
    const path = join(folder, `devin-remote_${binary.sha256}`);
    const part = `${path}.${random.id().slice(0, 8)}.part`;
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      // A copy that power loss or a bad disk has spoilt would be refused by every sandbox, for ever.
      if ((await digestOf(path)) === binary.sha256) return path;
      await this.#prune();
      if ((await this.#download(binary.url, part, signal)) !== binary.sha256)
        throw new DvoError('distribution', `${binary.url} does not match its checksum`);
      await rename(part, path);
      return path;
    } catch (error) {
      if (error instanceof DvoError) throw error;
      throw new DvoError('distribution', `${binary.url} cannot be kept for upload: ${describeError(error)}`, {
        cause: error,
      });
    } finally {
      await rm(part, { force: true });
    }
  }

  /** The SHA-256 of what was received and is on disk. */
  async #download(url: string, path: string, signal: AbortSignal): Promise<string> {
    const init = { method: 'GET', headers: {}, signal, redirect: 'follow' } as const;
    const response = await this.#options.fetch(url, init);
    if (response.status !== 200) throw new DvoError('distribution', `${url} answered ${response.status}`);
    const hash = createHash('sha256');
    let size = 0;
    const file = await open(path, 'wx', 0o600);
    try {
      for await (const chunk of response.body ?? []) {
        size += chunk.byteLength;
        if (size > LARGEST_BUILD_BYTES) throw new DvoError('distribution', `${url} is too large`);
        hash.update(chunk);
        await file.appendFile(chunk);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    return hash.digest('hex');
  }

  /** Makes room for one build more. What another download is writing right now is left alone. */
  async #prune(): Promise<void> {
    const { folder, clock } = this.#options;
    const files: { readonly path: string; readonly at: number }[] = [];
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      const at = await modifiedAt(path);
      if (at === undefined) continue;
      if (!name.endsWith('.part')) files.push({ path, at });
      else if (clock.now() - at > ABANDONED_MS) await rm(path, { force: true });
    }
    files.sort((left, right) => right.at - left.at);
    for (const { path } of files.slice(BUILDS - 1)) await rm(path, { force: true });
  }
}

/** Undefined: there is no such file. */
async function digestOf(path: string): Promise<string | undefined> {
  const hash = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path)) hash.update(chunk);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  return hash.digest('hex');
}

async function modifiedAt(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
