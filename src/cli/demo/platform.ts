/** The demo's own view of the platform, past the daemon: for local sandboxes the disk, for CoreWeave its API. */
import { join } from 'node:path';
import { kill as signal } from 'node:process';
import { unstopped } from '../../lib/deadline.ts';
import { processesOf } from '../../sandboxes/local/processes.ts';
import { namesIn, readEntry, SANDBOX_FILE } from '../../sandboxes/local/store.ts';
import { outpostTag, type SandboxName } from '../../sandboxes/names.ts';
import type { SandboxProvider } from '../../sandboxes/provider.ts';

export interface Platform {
  /** Ids of the sandboxes that live: all of the demo's outpost, or those under one name. */
  sandboxes(name?: SandboxName): Promise<readonly string[]>;
  archives(): Promise<readonly string[]>;
  /** Processes that live in any sandbox. */
  processes(): Promise<number>;
  /** Kills a remote: a process id as the remote itself sees it. */
  killRemote(name: SandboxName, pid: number): Promise<void>;
  /** Between looks, in milliseconds. */
  readonly lookEveryMs: number;
  /** Within this every check has to hold, in milliseconds. */
  readonly patienceMs: number;
}

export class LocalPlatform implements Platform {
  readonly lookEveryMs = 50;
  /** Each check takes well under a second; a machine that is busy with other things may need longer. */
  readonly patienceMs = 40_000;
  readonly #root: string;

  constructor(stateDir: string) {
    this.#root = join(stateDir, 'local');
  }

  async sandboxes(name?: SandboxName): Promise<readonly string[]> {
    const folder = join(this.#root, 'sandboxes');
    const found: string[] = [];
    for (const id of await namesIn(folder)) {
      const file = await readEntry(join(folder, id, 'sandbox.json'), SANDBOX_FILE);
      if (file !== undefined && (name === undefined || file.tags.includes(name))) found.push(id);
    }
    return found;
  }

  async archives(): Promise<readonly string[]> {
    const files = await namesIn(join(this.#root, 'snapshots'));
    return files.filter((name) => name.endsWith('.tar'));
  }

  async processes(): Promise<number> {
    return (await processesOf(join(this.#root, 'sandboxes'))).length;
  }

  async killRemote(_name: SandboxName, pid: number): Promise<void> {
    signal(pid, 'SIGKILL');
  }
}

const CALL_MS = 20_000;

export class RemotePlatform implements Platform {
  readonly lookEveryMs = 500;
  /** Booting, archiving and restoring take their time there. */
  readonly patienceMs = 300_000;
  readonly #provider: SandboxProvider;
  readonly #tag: string;

  constructor(provider: SandboxProvider, outpostId: string) {
    this.#provider = provider;
    this.#tag = outpostTag(outpostId);
  }

  async sandboxes(name: SandboxName = this.#tag): Promise<readonly string[]> {
    const found = await this.#provider.list({ tags: [name], include: 'active' }, unstopped(CALL_MS));
    return found.filter(({ state }) => state !== 'ending').map(({ id }) => id);
  }

  async archives(): Promise<readonly string[]> {
    const all = await this.#provider.list({ tags: [this.#tag], include: 'all' }, unstopped(CALL_MS));
    const found = await Promise.all(all.map(({ id }) => this.#provider.snapshots(id, unstopped(CALL_MS))));
    return found.flat().map(({ id }) => id);
  }

  /** They end with their sandbox. */
  async processes(): Promise<number> {
    return (await this.sandboxes()).length;
  }

  async killRemote(name: SandboxName, pid: number): Promise<void> {
    const argv = ['/bin/sh', '-c', `kill -9 ${pid}`];
    for (const id of await this.sandboxes(name)) await this.#provider.exec(id, { argv }, unstopped(CALL_MS));
  }
}
