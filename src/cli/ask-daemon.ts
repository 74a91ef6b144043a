/** Asks the daemon that runs on STATE_DIR, under the control token that it left there. */
import type { z } from 'zod';
import { systemClock } from '../lib/clock.ts';
import { unstopped, withDeadline } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import { readText, type Fetch } from '../lib/fetch.ts';
import { parseJson } from '../lib/json.ts';
import { nodeDisk } from '../state/node-disk.ts';
import { readOpsFile } from '../state/ops-file.ts';

const ASK_MS = 5_000;
/** Five thousand sessions with their events. */
const LARGEST_ANSWER_BYTES = 64 * 1024 * 1024;

export interface Question<Answer> {
  readonly path: string;
  /** Sent as JSON with POST; absent: a GET. */
  readonly body?: unknown;
  readonly answer: z.ZodType<Answer>;
  /** Statuses besides 200 under which `answer` comes. */
  readonly also?: readonly number[];
}

/**
 * Undefined: no daemon runs there.
 * @throws DvoError `state` when it refuses or answers what is none; `deadline`
 */
export async function askDaemon<Answer>(
  stateDir: string,
  fetch: Fetch,
  question: Question<Answer>,
): Promise<Answer | undefined> {
  const place = await readOpsFile(stateDir, nodeDisk);
  if (place === undefined) return undefined;
  const { path, body, also = [] } = question;
  const told = await withDeadline(systemClock, 'ask the daemon', unstopped(ASK_MS), async (signal) => {
    try {
      const response = await fetch(`${place.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${place.control}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal,
        redirect: 'manual',
      });
      return { status: response.status, text: await readText(response, LARGEST_ANSWER_BYTES) };
    } catch (error) {
      if (signal.aborted) throw error;
      // Killed, it leaves its address behind: nobody listens there.
      return undefined;
    }
  });
  if (told === undefined) return undefined;
  const strange = `what answers at ${place.url} is not the daemon of this STATE_DIR, or another version of dvo`;
  if (told.status !== 200 && !also.includes(told.status)) {
    throw new DvoError('state', `${strange}: it answers ${told.status}`);
  }
  const parsed = question.answer.safeParse(parseJson(told.text ?? ''));
  if (parsed.success) return parsed.data;
  throw new DvoError('state', strange, { cause: parsed.error });
}
