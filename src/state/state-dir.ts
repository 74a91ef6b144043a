/** STATE_DIR itself: made private, known to be writable, and its small identity files. */
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Random } from '../lib/clock.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import type { Disk } from './disk.ts';

/** @throws DvoError `state` naming the folder and why it cannot be used */
export async function openStateDir(stateDir: string, disk: Disk): Promise<void> {
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await chmod(stateDir, 0o700);
  } catch (error) {
    throw new DvoError('state', `STATE_DIR ${stateDir} cannot be used: ${describeError(error)}`, {
      cause: error,
    });
  }
  await disk.replace(join(stateDir, 'writable'), new Uint8Array());
}

const ACCEPTOR_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/**
 * The acceptor id: the configured one, else the one kept here, else a new one, kept durably before it is used.
 * @throws DvoError `state` when the kept one cannot be read: a new one would strand every session held under it
 */
export async function acceptorId(
  stateDir: string,
  disk: Disk,
  random: Random,
  configured: string | undefined,
): Promise<string> {
  if (configured !== undefined) return configured;
  const path = join(stateDir, 'acceptor_id');
  const kept = await disk.read(path);
  if (kept === undefined) {
    const made = `dvo-${random.id().slice(0, 16)}`;
    await disk.replace(path, new TextEncoder().encode(`${made}\n`));
    return made;
  }
  const text = new TextDecoder().decode(kept).trim();
  if (ACCEPTOR_ID.test(text)) return text;
  throw new DvoError(
    'state',
    `${path} is damaged. Put the acceptor id that this daemon used into it (it stands in sandbox_index.json and in ` +
      `the queue's entries), or set ACCEPTOR_ID. Deleting the file makes a new id, which gives up the sessions held now.`,
  );
}

const CURSOR_FILE = z.object({ outpostId: z.string(), apiUrl: z.string(), cursor: z.string().min(1) });

export interface CursorStore {
  /** Undefined when there is none, or when it belongs to another queue. */
  load(): Promise<string | undefined>;
  save(cursor: string): Promise<void>;
}

/** The watch cursor, bound to its queue: a cursor of another outpost would skip events without a word. */
export function cursorStore(
  stateDir: string,
  disk: Disk,
  queue: { outpostId: string; apiUrl: string },
): CursorStore {
  const path = join(stateDir, 'watch_cursor.json');
  return {
    async load() {
      const bytes = await disk.read(path);
      const kept = bytes === undefined ? undefined : parse(new TextDecoder().decode(bytes));
      return kept?.outpostId === queue.outpostId && kept.apiUrl === queue.apiUrl ? kept.cursor : undefined;
    },
    async save(cursor) {
      await disk.replace(path, new TextEncoder().encode(JSON.stringify({ ...queue, cursor })));
    },
  };
}

function parse(text: string): z.infer<typeof CURSOR_FILE> | undefined {
  try {
    const parsed = CURSOR_FILE.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    // A damaged cursor costs nothing: every start lists the whole queue first.
    return undefined;
  }
}
