/** Devin's endpoints. Nothing outside this room knows a path or a field of theirs. */
import type { Clock, Random } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import type { Fetch } from '../lib/fetch.ts';
import type { Logger } from '../lib/log.ts';
import { retry, type Verdict } from '../lib/retry.ts';
import { Secret, type Redactor } from '../lib/secret.ts';
import type { QueueEntry } from '../session/session.ts';
import { ApiError, type ClaimResult, type OutpostsApi, type QueueEvent, type QueuePage } from './outposts.ts';
import { readSse } from './sse.ts';
import { Transport, type Answer, type Exchange } from './transport.ts';
import { parseEntry, parseEvent, parseGrant, parsePage, sessionIdOf, type Parsed } from './wire.ts';

export interface ApiOptions {
  /** Without `/opbeta` and without a final slash. */
  readonly baseUrl: string;
  readonly outpostId: string;
  readonly acceptorId: string;
  readonly token: () => Secret;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly observer: ApiObserver;
}

export interface ApiObserver {
  /** `code`: the HTTP status, or `error` when no answer came. */
  readonly request: (operation: string, code: string, tookMs: number) => void;
  readonly skipped: (reason: string) => void;
}

/** The contract's largest page. */
const PAGE_SIZE = 200;
/** Used when a claim's answer names no deadline: the contract's "about 300 s". */
const CLAIM_LIFE_MS = 300_000;
const TRIES = 4;
const BACKOFF = { firstMs: 250, maxMs: 5_000, factor: 2 };
/** Three waits of this length leave half of a call's usual limit. Who made the call obeys what is longer. */
const LONGEST_HINT_MS = 5_000;

export function createOutpostsApi(options: ApiOptions): OutpostsApi {
  return new HttpApi(options);
}

class HttpApi implements OutpostsApi {
  readonly acceptorId: string;
  readonly #options: ApiOptions;
  readonly #transport: Transport;
  readonly #base: string;

  constructor(options: ApiOptions) {
    this.acceptorId = options.acceptorId;
    this.#options = options;
    this.#base = `${options.baseUrl}/opbeta/outposts/devins`;
    this.#transport = new Transport({ ...options, onRequest: options.observer.request });
  }

  async list(
    query: { readonly phase?: 'pending'; readonly cursor?: string },
    call: Call,
  ): Promise<QueuePage> {
    const search = new URLSearchParams({ outpost: this.#options.outpostId, first: String(PAGE_SIZE) });
    if (query.phase !== undefined) search.set('phase', query.phase);
    if (query.cursor !== undefined) search.set('cursor', query.cursor);
    const exchange: Exchange = {
      operation: 'list',
      method: 'GET',
      url: `${this.#base}?${search.toString()}`,
    };
    const answer = await this.#send(exchange, [200], call);
    const page = read(exchange, parsePage(answer.body, PAGE_SIZE));
    const entries: QueueEntry[] = [];
    for (const row of page.rows) {
      const entry = parseEntry(row);
      if (entry.kind === 'ok') entries.push(entry.value);
      else this.#skip(entry.why);
    }
    const { cursor } = page;
    const skipped = page.rows.length - entries.length;
    return { entries, hasNext: page.hasNext, skipped, ...(cursor === undefined ? {} : { cursor }) };
  }

  async *watch(cursor: string | undefined, call: Call): AsyncGenerator<QueueEvent> {
    const search = new URLSearchParams({ outpost: this.#options.outpostId, watch: 'true' });
    if (cursor !== undefined) search.set('cursor', cursor);
    const exchange: Exchange = {
      operation: 'watch',
      method: 'GET',
      url: `${this.#base}?${search.toString()}`,
    };
    const closing = new AbortController();
    const close = (): void => closing.abort(call.signal.reason);
    call.signal.addEventListener('abort', close, { once: true });
    try {
      const response = await withDeadline(this.#options.clock, 'watch', call, () =>
        this.#transport.open(exchange, closing.signal, 'text/event-stream'),
      );
      if (response.status !== 200) await this.#transport.refuse(exchange, response);
      for await (const item of readSse(response.body ?? empty())) {
        yield item.kind === 'comment' ? { kind: 'keepalive' } : this.#event(item.data);
      }
    } catch (error) {
      if (error instanceof DvoError) throw error;
      throw new ApiError(`watch: broken off: ${describeError(error)}`, { operation: 'watch', cause: error });
    } finally {
      call.signal.removeEventListener('abort', close);
      closing.abort();
    }
  }

  async get(sessionId: string, call: Call): Promise<QueueEntry | undefined> {
    const exchange: Exchange = { operation: 'get', method: 'GET', url: this.#url(sessionId) };
    const answer = await this.#send(exchange, [200, 404], call);
    return answer.status === 404 ? undefined : read(exchange, parseEntry(answer.body));
  }

  async claim(sessionId: string, call: Call): Promise<ClaimResult> {
    const url = `${this.#url(sessionId)}/claim`;
    const exchange: Exchange = {
      operation: 'claim',
      method: 'POST',
      url,
      body: { acceptor_id: this.acceptorId },
    };
    const answer = await this.#send(exchange, [200, 404, 409], call);
    if (answer.status === 404) return { kind: 'absent' };
    if (answer.status === 409) {
      // An earlier try may have won and its answer been lost: the entry says whose it is.
      const entry = await this.get(sessionId, call);
      if (entry === undefined) return { kind: 'absent' };
      const ours = entry.phase === 'claimed' && entry.acceptorId === this.acceptorId;
      return ours ? { kind: 'held', entry } : { kind: 'lost' };
    }
    return this.#granted(exchange, answer);
  }

  async release(sessionId: string, call: Call): Promise<void> {
    const url = `${this.#url(sessionId)}/release`;
    const body = { acceptor_id: this.acceptorId };
    await this.#send({ operation: 'release', method: 'POST', url, body }, [200, 204, 404, 409], call);
  }

  #granted(exchange: Exchange, answer: Answer): ClaimResult {
    const { clock, redactor } = this.#options;
    const { entry, connectToken, gatewayUrl } = read(exchange, parseGrant(answer.body));
    if (connectToken === undefined) {
      throw new ApiError('claim: won, but the answer holds no connect token', {
        operation: 'claim',
        status: 200,
      });
    }
    redactor.add(connectToken);
    return {
      kind: 'claimed',
      grant: {
        entry,
        deadline: entry.claimDeadline ?? clock.now() + CLAIM_LIFE_MS,
        connectToken: new Secret(connectToken),
        ...(gatewayUrl === undefined ? {} : { gatewayUrl }),
      },
    };
  }

  #event(data: string): QueueEvent {
    const event = parseEvent(data);
    const cursor = event.cursor === undefined ? {} : { cursor: event.cursor };
    if (event.kind === 'bad') return this.#skipped(event.why, cursor);
    const { raw } = event.value;
    const entry = parseEntry(raw);
    if (event.value.kind === 'deleted') {
      const sessionId = sessionIdOf(raw);
      if (sessionId === undefined) return this.#skipped('deleted without a session id', cursor);
      return {
        kind: 'deleted',
        sessionId,
        ...(entry.kind === 'ok' ? { entry: entry.value } : {}),
        ...cursor,
      };
    }
    return entry.kind === 'ok'
      ? { kind: 'changed', entry: entry.value, ...cursor }
      : this.#skipped(entry.why, cursor);
  }

  #skipped(reason: string, cursor: { readonly cursor?: string }): QueueEvent {
    this.#skip(reason);
    return { kind: 'skipped', reason, ...cursor };
  }

  #skip(reason: string): void {
    this.#options.observer.skipped(reason);
    this.#options.log.warn('queue row skipped', { reason });
  }

  async #send(exchange: Exchange, accept: readonly number[], call: Call): Promise<Answer> {
    const { clock, random, log } = this.#options;
    const { operation } = exchange;
    // One limit over all tries; each try gets half, so that a hanging one leaves time for another.
    return await withDeadline(clock, operation, call, (signal) =>
      retry(
        {
          clock,
          random,
          signal,
          backoff: BACKOFF,
          tries: TRIES,
          longestHintMs: LONGEST_HINT_MS,
          classify,
          onRetry: (error, waitMs) =>
            log.debug('request repeated', { operation, waitMs, error: describeError(error) }),
        },
        () => this.#transport.send(exchange, accept, { timeoutMs: call.timeoutMs / 2, signal }),
      ),
    );
  }

  /** @throws ApiError for an id that no URL can carry: `..` would name another resource, however it is encoded */
  #url(sessionId: string): string {
    if (sessionId === '.' || sessionId === '..' || !sessionId.isWellFormed()) {
      throw new ApiError(`the session id ${JSON.stringify(sessionId)} cannot be part of a URL`, {
        status: 400,
      });
    }
    return `${this.#base}/${encodeURIComponent(sessionId)}`;
  }
}

/** Every call here may be repeated: reads, and a claim or release that is compared-and-set under our own id. */
function classify(error: unknown): Verdict {
  if (error instanceof ApiError) {
    const { status, retryAfterMs } = error;
    const passing = status === undefined || status === 429 || status >= 500;
    if (!passing) return { retry: false };
    return retryAfterMs === undefined ? { retry: true } : { retry: true, afterMs: retryAfterMs };
  }
  return { retry: error instanceof DvoError && error.code === 'deadline' };
}

function read<T>(exchange: Exchange, parsed: Parsed<T>): T {
  if (parsed.kind === 'ok') return parsed.value;
  const { operation } = exchange;
  throw new ApiError(`${operation}: the answer cannot be read: ${parsed.why}`, { operation, status: 200 });
}

async function* empty(): AsyncGenerator<Uint8Array> {}
