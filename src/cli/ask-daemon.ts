/** Asks the daemon that runs on STATE_DIR, as its operator: under the control token that it left there. */
import type { z } from 'zod';
import { systemClock } from '../lib/clock.ts';
import { unstopped, withDeadline } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import { readText, type Fetch, type FetchResponse } from '../lib/fetch.ts';
import { parseJson } from '../lib/json.ts';
import { readSse } from '../outposts/sse.ts';
import { nodeDisk } from '../state/node-disk.ts';
import { readOpsFile, type OpsPlace } from '../state/ops-file.ts';

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
    const init = body === undefined ? { method: 'GET' } : { method: 'POST', body: JSON.stringify(body) };
    try {
      const response = await fetch(`${place.url}${path}`, { ...init, ...asOperator(place), signal });
      return { status: response.status, text: await readText(response, LARGEST_ANSWER_BYTES) };
    } catch (error) {
      if (signal.aborted) throw error;
      // Killed, it leaves its address behind: nobody listens there.
      return undefined;
    }
  });
  if (told === undefined) return undefined;
  if (told.status !== 200 && !also.includes(told.status)) throw strange(place, told.status);
  const parsed = question.answer.safeParse(parseJson(told.text ?? ''));
  if (parsed.success) return parsed.data;
  throw strange(place, told.status, parsed.error);
}

/**
 * What the daemon streams: the data of each event, until the stream ends or breaks. Undefined: no daemon runs there.
 * @throws DvoError `state` when it refuses; `deadline`
 */
export async function streamFromDaemon(
  stateDir: string,
  fetch: Fetch,
  path: string,
): Promise<AsyncIterable<string> | undefined> {
  const place = await readOpsFile(stateDir, nodeDisk);
  if (place === undefined) return undefined;
  const stopped = new AbortController();
  const response = await withDeadline(systemClock, 'ask the daemon', unstopped(ASK_MS), async (signal) => {
    signal.addEventListener('abort', () => stopped.abort(), { once: true });
    try {
      return await fetch(`${place.url}${path}`, {
        method: 'GET',
        ...asOperator(place),
        signal: stopped.signal,
      });
    } catch (error) {
      if (signal.aborted) throw error;
      return undefined;
    }
  });
  if (response === undefined) return undefined;
  if (response.status !== 200) throw strange(place, response.status);
  return eventsOf(response);
}

async function* eventsOf({ body }: FetchResponse): AsyncGenerator<string> {
  if (body === null) return;
  try {
    for await (const item of readSse(body)) if (item.kind === 'event') yield item.data;
  } catch (error) {
    // A daemon that ends cuts its streams off.
    if (error instanceof DvoError) throw error;
  }
}

function asOperator({ control }: OpsPlace) {
  return { headers: { authorization: `Bearer ${control}` }, redirect: 'manual' } as const;
}

function strange({ url }: OpsPlace, status: number, cause?: unknown): DvoError {
  const what = `what answers at ${url} is not the daemon of this STATE_DIR, or another version of dvo`;
  return new DvoError('state', status === 200 ? what : `${what}: it answers ${status}`, { cause });
}
