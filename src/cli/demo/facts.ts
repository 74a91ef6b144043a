/** What the demo observes: queue, platform and index file, never the daemon's own word. */
import { join } from 'node:path';
import { z } from 'zod';
import type { Emulator, SessionView } from '../../emulator/emulator.ts';
import { readEntry } from '../../sandboxes/local/store.ts';
import { sandboxName } from '../../sandboxes/names.ts';
import { LocalPlatform, type Platform } from './platform.ts';

const INDEX = z.object({ sessions: z.record(z.string(), z.object({ stage: z.string() })) });

export class Facts {
  readonly platform: Platform;
  readonly #emulator: Emulator;
  readonly #stateDir: string;

  constructor(emulator: Emulator, stateDir: string, platform: Platform = new LocalPlatform(stateDir)) {
    this.#emulator = emulator;
    this.#stateDir = stateDir;
    this.platform = platform;
  }

  session(sessionId: string): SessionView | undefined {
    return this.#emulator.session(sessionId);
  }

  remotePid(sessionId: string): number | undefined {
    return this.session(sessionId)?.remote?.pid;
  }

  /** All sandboxes, or those under the session's name. */
  async sandboxes(sessionId?: string): Promise<readonly string[]> {
    return await this.platform.sandboxes(sessionId === undefined ? undefined : this.#name(sessionId));
  }

  async archives(): Promise<readonly string[]> {
    return await this.platform.archives();
  }

  /** Processes that live in any sandbox. */
  async processes(): Promise<number> {
    return await this.platform.processes();
  }

  async killRemote(sessionId: string, pid: number): Promise<void> {
    await this.platform.killRemote(this.#name(sessionId), pid);
  }

  /** What the index says. */
  async stage(sessionId: string): Promise<string | undefined> {
    const index = await readEntry(join(this.#stateDir, 'sandbox_index.json'), INDEX);
    return index?.sessions[this.#name(sessionId)]?.stage;
  }

  async records(): Promise<number> {
    const index = await readEntry(join(this.#stateDir, 'sandbox_index.json'), INDEX);
    return Object.keys(index?.sessions ?? {}).length;
  }

  #name(sessionId: string): string {
    return sandboxName(this.#emulator.outpostId, sessionId);
  }
}
