/**
 * The real Disk. A file is written whole to a temporary beside it, synced, renamed over the old one, and the folder is
 * synced, so that a crash shows the old content or the new, never a part. Short writes are continued by hand: a
 * popular package for this published half a file on a full disk.
 */
import { open, readdir, readFile, rename, stat, unlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { DvoError, describeError, systemCode } from '../lib/errors.ts';
import type { Disk } from './disk.ts';

const TEMPORARY = '.dvo-tmp';
let written = 0;

export const nodeDisk: Disk = {
  async read(path) {
    try {
      return await readFile(path);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      throw stateError('read', path, error);
    }
  },

  async replace(path, content) {
    written += 1;
    const temporary = `${path}.${process.pid}-${written}${TEMPORARY}`;
    try {
      await writeSynced(temporary, content, await ownerOf(path));
      await rename(temporary, path);
      await syncFolder(dirname(path));
    } catch (error) {
      await discard(temporary);
      throw stateError('write', path, error);
    }
  },

  async setAside(path, to) {
    try {
      await rename(path, to);
      await syncFolder(dirname(path));
    } catch (error) {
      throw stateError('set aside', path, error);
    }
  },
};

/**
 * Removes the temporaries of writers that died. Only for the holder of the folder's lock.
 * @throws DvoError `state`
 */
export async function removeTemporaries(folder: string): Promise<void> {
  try {
    for (const name of await readdir(folder)) {
      if (name.endsWith(TEMPORARY)) await unlink(join(folder, name));
    }
  } catch (error) {
    throw stateError('clean', folder, error);
  }
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Whose the new file must be. What root writes beside a daemon of another user, that daemon must be able to read: it is
 * given to the owner of the old file, or of the folder. Undefined: whoever writes it, which is all that others can do.
 */
async function ownerOf(path: string): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  try {
    return await stat(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    return await stat(dirname(path));
  }
}

async function writeSynced(path: string, content: Uint8Array, owner: Owner | undefined): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    if (owner !== undefined) await file.chown(owner.uid, owner.gid);
    await writeAll(file, content);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, content: Uint8Array): Promise<void> {
  let offset = 0;
  while (offset < content.byteLength) {
    const { bytesWritten } = await file.write(content, offset, content.byteLength - offset, offset);
    if (bytesWritten === 0) throw new DvoError('state', 'the disk took no bytes');
    offset += bytesWritten;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

async function discard(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    // It was never made, or was renamed before the failure. Anything else is swept at the next start.
    if (systemCode(error) === 'ENOENT') return;
  }
}

function stateError(verb: string, path: string, error: unknown): DvoError {
  const message = `cannot ${verb} ${basename(path)} in ${dirname(path)}: ${describeError(error)}`;
  return new DvoError('state', message, { cause: error });
}
