/**
 * The local provider's registry: one folder per sandbox with its own small file, so that two daemons can share a root.
 * Files are replaced by rename, against a kill in mid-write; they are not synced, because a power cut ends the
 * processes they speak of anyway.
 */
import { mkdir, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { systemCode } from '../../lib/errors.ts';

export const SANDBOX_FILE = z.object({
  id: z.string(),
  tags: z.array(z.string()),
  state: z.enum(['running', 'ending', 'ended']),
  startedAt: z.number(),
});
export type SandboxFile = z.infer<typeof SANDBOX_FILE>;

export const SNAPSHOT_FILE = z.object({
  id: z.string(),
  state: z.enum(['creating', 'ready', 'failed']),
  reason: z.string().exactOptional(),
  sourceSandboxId: z.string(),
  sizeBytes: z.number().exactOptional(),
  createdAt: z.number(),
  /** Who writes it while it is `creating`: if that process is gone, it has failed. */
  writer: z.object({ pid: z.number(), startTime: z.string() }),
});
export type SnapshotFile = z.infer<typeof SNAPSHOT_FILE>;

export interface Layout {
  readonly sandboxes: string;
  /** Sandboxes and files that are being made: garbage when their maker died. */
  readonly making: string;
  readonly ended: string;
  readonly snapshots: string;
}

export async function openLayout(root: string): Promise<Layout> {
  const layout = {
    sandboxes: join(root, 'sandboxes'),
    making: join(root, 'making'),
    ended: join(root, 'ended'),
    snapshots: join(root, 'snapshots'),
  };
  for (const folder of Object.values(layout)) await mkdir(folder, { recursive: true, mode: 0o700 });
  return layout;
}

/** Undefined when there is no such file, or when it is none of ours. */
export async function readEntry<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const parsed = schema.safeParse(JSON.parse(await readFile(path, 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** @param making where it is written before it is renamed: on the same disk */
export async function writeEntry(
  path: string,
  entry: SandboxFile | SnapshotFile,
  making: string,
  unique: string,
): Promise<void> {
  const temporary = join(making, `${basename(path)}.${unique}`);
  await writeFile(temporary, JSON.stringify(entry), { mode: 0o600 });
  await rename(temporary, path);
}

/** When it was last changed, in milliseconds since the epoch. Undefined: it is not there. */
export async function touchedAt(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

export async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}
