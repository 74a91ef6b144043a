/** Devin's queue over HTTP: list, watch, get, claim, release. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../lib/clock.ts';
import { sendJson } from './http.ts';
import type { Knobs } from './settings.ts';
import type { Change, Session, Store } from './store.ts';
import { entryJson } from './wire.ts';

export interface QueueRoutesOptions {
  readonly store: Store;
  readonly knobs: Knobs;
  readonly clock: Clock;
  readonly outpostId: string;
  readonly gatewayUrl: () => string;
}

export class QueueRoutes {
  readonly #options: QueueRoutesOptions;
  readonly #watches = new Set<ServerResponse>();
  /** Events that wait to be sent after the next one. */
  readonly #held = new WeakMap<ServerResponse, string>();

  constructor(options: QueueRoutesOptions) {
    this.#options = options;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  /** Sends text down every open watch as it is, for events that no store would make. */
  inject(text: string): void {
    for (const watch of this.#watches) watch.write(text);
  }

  closeWatches(): void {
    for (const watch of this.#watches) watch.end();
  }

  list(url: URL, response: ServerResponse): void {
    const { store, knobs } = this.#options;
    store.lapseAll();
    const first = Math.min(Number(url.searchParams.get('first') ?? '100'), knobs.pageSize);
    const phase = url.searchParams.get('phase');
    const acceptor = url.searchParams.get('acceptor_id');
    const rows: Session[] = [];
    let hasNext = false;
    for (const row of store.rowsAfter(position(url.searchParams.get('cursor')))) {
      if ((phase !== null && row.phase !== phase) || (acceptor !== null && row.acceptor !== acceptor))
        continue;
      hasNext = rows.length === first;
      if (hasNext) break;
      rows.push(row);
    }
    const last = hasNext ? (rows.at(-1)?.seq ?? store.head) : store.head;
    const shown = knobs.list === 'empty' ? [] : rows;
    const more = knobs.list === 'whole' && hasNext;
    sendJson(response, 200, {
      items: shown.map((row) => this.#json(row)),
      cursor: cursorOf(last),
      has_next_page: more,
      total: store.depth,
    });
  }

  watch(url: URL, request: IncomingMessage, response: ServerResponse): void {
    const { store, knobs, clock } = this.#options;
    const from = position(url.searchParams.get('cursor'));
    const missed = store.changesAfter(knobs.watchOverlap ? from - 1 : from);
    if (missed === undefined) {
      sendJson(response, 410, { error: 'cursor_expired' });
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.flushHeaders();
    if (knobs.watchHangsUp) {
      response.end();
      return;
    }
    this.#watches.add(response);
    const ended = new AbortController();
    const unsubscribe = store.subscribe((change) => this.#send(response, change));
    request.once('close', () => {
      unsubscribe();
      ended.abort();
      this.#watches.delete(response);
    });
    for (const change of missed) this.#send(response, change);
    void this.#keepAlive(response, ended.signal);
    void clock.sleep(knobs.watchLifeMs, ended.signal).then(
      () => response.end(),
      () => undefined,
    );
  }

  get(sessionId: string, response: ServerResponse): void {
    const row = this.#options.store.row(sessionId);
    if (row === undefined) sendJson(response, 404, { error: 'not_found' });
    else sendJson(response, 200, this.#json(row));
  }

  claim(sessionId: string, acceptor: string, response: ServerResponse): void {
    const { store, gatewayUrl } = this.#options;
    const answer = store.claim(sessionId, acceptor);
    if (answer.status !== 200) {
      sendJson(response, answer.status, { error: answer.status === 409 ? 'already_claimed' : 'not_found' });
      return;
    }
    const grant = { connect_token: answer.token, gateway_url: gatewayUrl() };
    sendJson(response, 200, this.#json(answer.session, grant));
  }

  release(sessionId: string, acceptor: string, response: ServerResponse): void {
    const status = this.#options.store.release(sessionId, acceptor);
    sendJson(response, status, status === 200 ? { ok: true } : { error: 'not_claimed' });
  }

  #json(row: Session, grant?: Readonly<Record<string, unknown>>) {
    const { outpostId, knobs } = this.#options;
    return entryJson(row, outpostId, knobs, grant);
  }

  #send(response: ServerResponse, change: Change): void {
    const { knobs, store } = this.#options;
    if (knobs.watchSilent || knobs.watchWithholds) return;
    const row = change.row ?? store.sessions.get(change.sessionId);
    const object =
      change.row === undefined || row === undefined
        ? { metadata: { session_id: change.sessionId } }
        : this.#json(row);
    const data = JSON.stringify({ type: change.type, object, cursor: cursorOf(change.seq) });
    const text = `data: ${data}\n\n`.repeat(knobs.watchCopies);
    const held = this.#held.get(response);
    if (knobs.watchSwaps && held === undefined) {
      this.#held.set(response, text);
      return;
    }
    this.#held.delete(response);
    response.write(text + (held ?? ''));
  }

  async #keepAlive(response: ServerResponse, signal: AbortSignal): Promise<void> {
    const { knobs, clock } = this.#options;
    while (!signal.aborted) {
      if (!knobs.watchSilent) response.write(': keepalive\n\n');
      await clock.sleep(knobs.keepaliveMs, signal).catch(() => undefined);
    }
  }
}

function cursorOf(seq: number): string {
  return `c${seq}`;
}

function position(cursor: string | null): number {
  return cursor === null ? 0 : Number(cursor.slice(1));
}
