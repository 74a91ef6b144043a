/**
 * The status view, live: `GET /api/events` sends the whole view first (event `view`), then what changed (`change`), and
 * a sign of life (`tick`) in between. One look a second serves every listener. A listener that does not read gets
 * nothing until it does, and then the whole view, so that slow ones hold one message at most.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Load } from './load.ts';
import { sendText, type Route } from './server.ts';
import type { StatusView } from './view.ts';

export interface StatusStreamOptions {
  readonly status: () => StatusView;
  readonly load: Load;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_EVERY_MS = 1_000;
/** Silence that the page takes for a dead connection is three times this. */
const TICK_EVERY_MS = 5_000;
/** Pages open at the same time. Each costs a socket and, at worst, one view in a buffer. */
const MOST_LISTENERS = 32;

interface Listener {
  readonly response: ServerResponse;
  /** Has the view as of the last look, so that a change is enough. */
  current: boolean;
}

export class StatusStream {
  readonly #options: StatusStreamOptions;
  readonly #listeners = new Set<Listener>();
  /** Each part of the last view as JSON, to tell what changed. */
  #parts = new Map<string, string>();
  #sessions = new Map<string, string>();
  #tickedAt = 0;

  constructor(options: StatusStreamOptions) {
    this.#options = options;
  }

  get route(): Route {
    return {
      method: 'GET',
      path: '/api/events',
      access: 'guarded',
      handle: (_, response) => this.#listen(response),
    };
  }

  /** Looks, samples and tells, until aborted. The connections are closed by the server. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    let trouble: string | undefined;
    while (!signal.aborted) {
      try {
        this.#round();
        trouble = undefined;
      } catch (error) {
        const why = describeError(error);
        if (why !== trouble) log.error('status not told', { error: why });
        trouble = why;
      }
      await clock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
    }
  }

  #listen(response: ServerResponse): void {
    if (this.#listeners.size >= MOST_LISTENERS) {
      response.setHeader('retry-after', '10');
      sendText(response, 503, `${MOST_LISTENERS} listeners are connected; no more are taken\n`);
      return;
    }
    const listener: Listener = { response, current: false };
    this.#listeners.add(listener);
    response.on('close', () => this.#listeners.delete(listener));
    response.writeHead(200, {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    response.write('retry: 2000\n\n');
    this.#round();
  }

  #round(): void {
    const { clock, load, status } = this.#options;
    const now = clock.now();
    const isSampling = load.isDue(now);
    if (!isSampling && this.#listeners.size === 0) return;
    const view = status();
    if (isSampling) {
      const { used, max = used } = view.slots;
      load.add({ at: now, used, max, waiting: view.waitingCount ?? view.waiting.length });
    }
    if (this.#listeners.size > 0) this.#tell({ ...view, load: [...load.samples] });
  }

  #tell(view: StatusView): void {
    const change = this.#difference(view);
    const isTick = view.at - this.#tickedAt >= TICK_EVERY_MS || view.at < this.#tickedAt;
    if (isTick) this.#tickedAt = view.at;
    let whole: string | undefined;
    for (const listener of this.#listeners) {
      const { response } = listener;
      if (response.writableNeedDrain) {
        listener.current = false;
        continue;
      }
      if (!listener.current) {
        whole ??= message('view', view);
        response.write(whole);
        listener.current = true;
      } else if (change !== undefined) {
        response.write(change);
      } else if (isTick) {
        response.write(message('tick', { at: view.at }));
      }
    }
  }

  /** What a holder of the last view needs to have this one; undefined: nothing. */
  #difference(view: StatusView): string | undefined {
    const { at, sessions, ...rest } = view;
    const parts = new Map(Object.entries(rest).map(([key, part]) => [key, JSON.stringify(part)]));
    const rows = new Map(sessions.map((session) => [session.name, JSON.stringify(session)]));
    const changed = [...parts].filter(([key, json]) => this.#parts.get(key) !== json);
    const changedRows = [...rows].filter(([name, json]) => this.#sessions.get(name) !== json);
    const gone = [...this.#sessions.keys()].filter((name) => !rows.has(name));
    this.#parts = parts;
    this.#sessions = rows;
    if (changed.length + changedRows.length + gone.length === 0) return undefined;
    const fields = [
      `"at":${at}`,
      ...changed.map(([key, json]) => `${JSON.stringify(key)}:${json}`),
      `"sessions":[${changedRows.map(([, json]) => json).join(',')}]`,
      `"gone":${JSON.stringify(gone)}`,
    ];
    return `event: change\ndata: {${fields.join(',')}}\n\n`;
  }
}

function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
