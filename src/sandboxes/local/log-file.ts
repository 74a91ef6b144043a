/** Reading a growing log file line by line; it may be cut short by its writer, and may not exist yet. */
import { open } from 'node:fs/promises';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/errors.ts';
import type { LogsOptions } from '../provider.ts';

export interface FollowOptions extends LogsOptions {
  readonly clock: Clock;
  /** Whether more can come. */
  readonly alive: () => Promise<boolean>;
  readonly signal: AbortSignal;
}

const LOOK_MS = 200;

export async function* followLog(path: string, options: FollowOptions): AsyncGenerator<string> {
  const { clock, alive, signal } = options;
  let offset = 0;
  let rest = '';
  // A character may be cut by the end of a read.
  let decoder = new TextDecoder();
  let first = true;
  for (;;) {
    const more = await alive();
    const read = await readFrom(path, offset);
    // Shorter than before: its writer has started it anew.
    if (read.size < offset) {
      rest = '';
      decoder = new TextDecoder();
    }
    offset = read.size < offset ? 0 : offset + read.bytes.byteLength;
    const lines = (rest + decoder.decode(read.bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    const isLast = options.follow !== true || !more || signal.aborted;
    if (isLast && rest !== '') lines.push(rest);
    yield* first && options.tailLines !== undefined ? tailOf(lines, options.tailLines) : lines;
    first = false;
    if (isLast) break;
    await clock.sleep(LOOK_MS, signal).catch(() => undefined);
  }
}

function tailOf(lines: readonly string[], count: number): readonly string[] {
  return lines.slice(Math.max(0, lines.length - count));
}

async function readFrom(
  path: string,
  offset: number,
): Promise<{ readonly bytes: Buffer; readonly size: number }> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      const bytes = Buffer.alloc(Math.max(0, size - offset));
      const { bytesRead } = await file.read(bytes, 0, bytes.byteLength, offset);
      return { bytes: bytes.subarray(0, bytesRead), size };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    return { bytes: Buffer.alloc(0), size: 0 };
  }
}
