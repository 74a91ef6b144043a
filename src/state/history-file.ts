/** STATE_DIR/session_events.json: the history on disk. Saved every few seconds; a damaged or missing one costs nothing. */
import { join } from 'node:path';
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import { parseJson } from '../lib/json.ts';
import type { Logger } from '../lib/log.ts';
import { STAGES, type SessionHistory } from '../session/session.ts';
import type { Disk } from './disk.ts';

const SAVE_EVERY_MS = 5_000;

const HISTORY: z.ZodType<SessionHistory> = z.object({
  sessionId: z.string(),
  events: z.array(
    z.object({
      at: z.number(),
      what: z.string(),
      detail: z.string().exactOptional(),
      stage: z.enum(STAGES).exactOptional(),
      times: z.number().exactOptional(),
      lastAt: z.number().exactOptional(),
    }),
  ),
  endedAt: z.number().exactOptional(),
});
const FILE = z.object({ version: z.literal(1), sessions: z.record(z.string(), HISTORY) });

/** The kept rows; none when there is no such file, or when it cannot be understood. @throws DvoError `state` */
export async function readHistory(
  stateDir: string,
  disk: Disk,
): Promise<readonly (readonly [string, SessionHistory])[]> {
  const bytes = await disk.read(pathOf(stateDir));
  if (bytes === undefined) return [];
  // Of cut JSON nothing is known any more; what happens from now on will be.
  const parsed = FILE.safeParse(parseJson(new TextDecoder().decode(bytes)));
  return parsed.success ? Object.entries(parsed.data.sessions) : [];
}

/** The content to keep. */
interface Rows {
  /** Changes with the content. */
  readonly version: number;
  /** All rows as one JSON object, in pieces to be joined. */
  json(): Iterable<Buffer>;
}

export interface HistoryFileOptions {
  readonly history: Rows;
  readonly stateDir: string;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Saves what changed, until aborted; then once more. A disk in trouble is told once, and tried again. */
export async function keepHistory(options: HistoryFileOptions, signal: AbortSignal): Promise<void> {
  const { history, clock } = options;
  let saved = history.version;
  let trouble: string | undefined;
  do {
    await clock.sleep(SAVE_EVERY_MS, signal).catch(() => undefined);
    const { version } = history;
    if (version === saved) continue;
    try {
      await options.disk.replace(pathOf(options.stateDir), bytesOf(history));
      saved = version;
      trouble = undefined;
    } catch (error) {
      const why = describeError(error);
      if (why !== trouble) options.log.warn('session events not saved', { error: why });
      trouble = why;
    }
  } while (!signal.aborted);
}

function bytesOf(history: Rows): Uint8Array {
  return Buffer.concat([Buffer.from('{"version":1,"sessions":'), ...history.json(), Buffer.from('}\n')]);
}

const pathOf = (stateDir: string): string => join(stateDir, 'session_events.json');
