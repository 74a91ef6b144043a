/**
 * One daemon per STATE_DIR. The lock is an exclusive transaction on a SQLite file: the kernel holds it for the open
 * file, so it ends with its process however that dies, and no pid is compared with any other. The note beside it only
 * says who the holder is.
 */
import { hostname } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { describeError, DvoError } from '../lib/errors.ts';
import type { Disk } from './disk.ts';

const NOTE = z.object({ pid: z.number(), host: z.string(), since: z.string() });

export interface StateLock {
  release(): void;
}

/**
 * @throws DvoError `locked` naming the daemon that holds the folder; `state` when the lock file cannot be used
 */
export async function lockStateDir(stateDir: string, disk: Disk, now: number): Promise<StateLock> {
  // Loaded here, so that commands which need no lock do not load SQLite.
  const { DatabaseSync } = await import('node:sqlite');
  const notePath = join(stateDir, 'lock.json');
  const database = openDatabase(DatabaseSync, join(stateDir, 'lock.db'));
  try {
    // No journal on disk and nothing ever written: a full disk or a kill leaves nothing to repair.
    database.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    database.close();
    if (!/locked|busy/i.test(describeError(error))) {
      throw new DvoError('state', `STATE_DIR ${stateDir} cannot be locked: ${describeError(error)}`, {
        cause: error,
      });
    }
    throw new DvoError(
      'locked',
      `another dvo runs with STATE_DIR ${stateDir}${await holder(disk, notePath)}`,
    );
  }
  const note = { pid: process.pid, host: hostname(), since: new Date(now).toISOString() };
  await disk.replace(notePath, new TextEncoder().encode(`${JSON.stringify(note)}\n`));
  return { release: () => database.close() };
}

function openDatabase<T>(Database: new (path: string) => T, path: string): T {
  try {
    return new Database(path);
  } catch (error) {
    throw new DvoError('state', `${path} cannot be opened: ${describeError(error)}`, { cause: error });
  }
}

async function holder(disk: Disk, notePath: string): Promise<string> {
  const bytes = await disk.read(notePath);
  if (bytes === undefined) return '';
  try {
    const { pid, host, since } = NOTE.parse(JSON.parse(new TextDecoder().decode(bytes)));
    return `: process ${pid} on ${host}, since ${since}`;
  } catch {
    // The note is for people; the lock itself has spoken.
    return ' (its note cannot be read)';
  }
}
