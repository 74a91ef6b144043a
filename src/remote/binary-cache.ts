/** The daemon's own copies of devin-remote, for sandboxes that cannot download: verified before they are kept. */
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Random } from '../lib/clock.ts';
import type { Call } from '../lib/deadline.ts';
import { DvoError, systemCode } from '../lib/errors.ts';
import type { Fetch } from '../lib/fetch.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import type { RemoteBinary } from './port.ts';

export interface BinaryCacheOptions {
  readonly provider: SandboxProvider;
  readonly fetch: Fetch;
  readonly random: Random;
  readonly folder: string;
}

/** Builds kept on the daemon's disk: the pinned one, the latest, and one that is going out of use. */
const BUILDS = 3;

export class BinaryCache {
  readonly #options: BinaryCacheOptions;

  constructor(options: BinaryCacheOptions) {
    this.#options = options;
  }

  /** @throws DvoError `distribution` when it cannot be had or does not match; what the upload throws */
  async upload(sandboxId: string, binary: RemoteBinary, path: string, call: Call): Promise<void> {
    await this.#options.provider.upload(sandboxId, await this.#local(binary, call), path, call);
  }

  async #local(binary: RemoteBinary, call: Call): Promise<string> {
    const { folder, random } = this.#options;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, `devin-remote_${binary.sha256}`);
    if (await exists(path)) return path;
    const part = `${path}.${random.id().slice(0, 8)}.part`;
    try {
      const digest = await this.#download(binary.url, part, call);
      if (digest !== binary.sha256)
        throw new DvoError('distribution', `${binary.url} does not match its checksum`);
      await rename(part, path);
    } finally {
      await rm(part, { force: true });
    }
    await this.#prune(path);
    return path;
  }

  async #download(url: string, path: string, call: Call): Promise<string> {
    const init = { method: 'GET', headers: {}, signal: call.signal, redirect: 'follow' } as const;
    const response = await this.#options.fetch(url, init);
    if (response.status !== 200) throw new DvoError('distribution', `${url} answered ${response.status}`);
    const hash = createHash('sha256');
    const file = await open(path, 'wx', 0o600);
    try {
      for await (const chunk of response.body ?? []) {
        hash.update(chunk);
        await file.appendFile(chunk);
      }
    } finally {
      await file.close();
    }
    return hash.digest('hex');
  }

  async #prune(keep: string): Promise<void> {
    const { folder } = this.#options;
    const files = [];
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      if (path !== keep) files.push({ path, at: (await stat(path)).mtimeMs });
    }
    files.sort((left, right) => right.at - left.at);
    for (const { path } of files.slice(BUILDS - 1)) await rm(path, { force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}
