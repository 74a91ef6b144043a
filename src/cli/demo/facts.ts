/** What the demo observes: queue, disk and processes, never the daemon's own word. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Emulator, SessionView } from '../../emulator/emulator.ts';
import { systemCode } from '../../lib/errors.ts';
import { sandboxName } from '../../sandboxes/names.ts';
import { processesOf } from '../../sandboxes/local/processes.ts';

const SANDBOX = z.object({ tags: z.array(z.string()) });
const INDEX = z.object({ sessions: z.record(z.string(), z.object({ stage: z.string() })) });

export class Facts {
  readonly #emulator: Emulator;
  readonly #stateDir: string;

  constructor(emulator: Emulator, stateDir: string) {
    this.#emulator = emulator;
    this.#stateDir = stateDir;
  }

  session(sessionId: string): SessionView | undefined {
    return this.#emulator.session(sessionId);
  }

  remotePid(sessionId: string): number | undefined {
    return this.session(sessionId)?.remote?.pid;
  }

  /** Sandboxes on disk: all, or those under the session's name. */
  async sandboxes(sessionId?: string): Promise<readonly string[]> {
    const folder = join(this.#stateDir, 'local', 'sandboxes');
    const name = sessionId === undefined ? undefined : sandboxName(this.#emulator.outpostId, sessionId);
    const found: string[] = [];
    for (const id of await list(folder)) {
      const file = await json(join(folder, id, 'sandbox.json'), SANDBOX);
      if (file !== undefined && (name === undefined || file.tags.includes(name))) found.push(id);
    }
    return found;
  }

  async archives(): Promise<readonly string[]> {
    const files = await list(join(this.#stateDir, 'local', 'snapshots'));
    return files.filter((name) => name.endsWith('.tar'));
  }

  /** What the index says, by sandbox name. */
  async stage(sessionId: string): Promise<string | undefined> {
    const index = await json(join(this.#stateDir, 'sandbox_index.json'), INDEX);
    return index?.sessions[sandboxName(this.#emulator.outpostId, sessionId)]?.stage;
  }

  async records(): Promise<number> {
    const index = await json(join(this.#stateDir, 'sandbox_index.json'), INDEX);
    return Object.keys(index?.sessions ?? {}).length;
  }

  /** Processes that live in any sandbox. */
  async processes(): Promise<number> {
    return (await processesOf(join(this.#stateDir, 'local', 'sandboxes'))).length;
  }
}

async function list(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

async function json<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const parsed = schema.safeParse(JSON.parse(await readFile(path, 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    // Being made or being removed right now.
    if (systemCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
