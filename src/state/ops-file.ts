/** STATE_DIR/ops.json: where the running daemon can be asked, for the commands beside it. Its file rights are its protection. */
import { unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { systemCode } from '../lib/errors.ts';
import { parseJson } from '../lib/json.ts';
import type { Disk } from './disk.ts';

const OPS_FILE = z.object({ url: z.string(), pid: z.number(), control: z.string() });

/** Where the daemon can be asked, and what it knows its own commands by. */
export interface OpsPlace {
  readonly url: string;
  readonly control: string;
}

const pathIn = (stateDir: string): string => join(stateDir, 'ops.json');

/** @throws DvoError `state` */
export async function writeOpsFile(stateDir: string, disk: Disk, place: OpsPlace): Promise<void> {
  await disk.replace(pathIn(stateDir), Buffer.from(`${JSON.stringify({ ...place, pid: process.pid })}\n`));
}

/** Succeeds when it is gone already. A daemon that was killed leaves it behind: nobody listens at its address then. */
export async function removeOpsFile(stateDir: string): Promise<void> {
  try {
    await unlink(pathIn(stateDir));
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
}

/** The daemon that runs, or ran last; undefined: none that is known. */
export async function readOpsFile(stateDir: string, disk: Disk): Promise<OpsPlace | undefined> {
  const bytes = await disk.read(pathIn(stateDir));
  if (bytes === undefined) return undefined;
  const parsed = OPS_FILE.safeParse(parseJson(new TextDecoder().decode(bytes)));
  return parsed.success ? parsed.data : undefined;
}
