/** One HTTP exchange with Devin: token, limits, bounded body, errors in our words. Knows no endpoint. */
import type { Clock } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import { readText, type Fetch, type FetchResponse } from '../lib/fetch.ts';
import { parseJson } from '../lib/json.ts';
import type { Redactor, Secret } from '../lib/secret.ts';
import { ApiError } from './outposts.ts';

export interface TransportOptions {
  readonly clock: Clock;
  readonly fetch: Fetch;
  /** Asked for each request, so that a rotated token is used at once. */
  readonly token: () => Secret;
  readonly redactor: Redactor;
  readonly onRequest: (operation: string, code: string, tookMs: number) => void;
}

export interface Exchange {
  readonly operation: string;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly url: string;
  readonly body?: Readonly<Record<string, unknown>>;
}

export interface Answer {
  readonly status: number;
  /** Undefined: empty. */
  readonly body: unknown;
}

/** A page of 200 entries with long policies stays well below this. */
const LARGEST_BODY_BYTES = 32 * 1024 * 1024;
const EXCERPT_LENGTH = 200;

export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /**
   * @throws ApiError for every status but those in `accept`, for an answer that is not Devin's, and when no whole one
   *   came; `deadline`, `aborted`
   */
  async send(exchange: Exchange, accept: readonly number[], call: Call): Promise<Answer> {
    const { clock } = this.#options;
    return await withDeadline(clock, exchange.operation, call, async (signal) => {
      const response = await this.open(exchange, signal, 'application/json');
      const text = await this.#text(exchange, response);
      const content = contentOf(text);
      if (content !== undefined && accept.includes(response.status))
        return { status: response.status, ...content };
      throw this.#refused(exchange, response, text);
    });
  }

  /** The response as soon as its head is there. @throws ApiError when there is none */
  async open(exchange: Exchange, signal: AbortSignal, accept: string): Promise<FetchResponse> {
    const { clock, fetch, token, onRequest } = this.#options;
    const { operation, method, url, body } = exchange;
    const startedAt = clock.now();
    try {
      const response = await fetch(url, {
        method,
        signal,
        redirect: 'manual',
        headers: {
          accept,
          authorization: `Bearer ${token().reveal()}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      onRequest(operation, String(response.status), clock.now() - startedAt);
      return response;
    } catch (error) {
      onRequest(operation, 'error', clock.now() - startedAt);
      throw this.#broken(exchange, error);
    }
  }

  /** @throws ApiError: never returns */
  async refuse(exchange: Exchange, response: FetchResponse): Promise<never> {
    throw this.#refused(exchange, response, await this.#text(exchange, response));
  }

  #broken(exchange: Exchange, error: unknown): Error {
    if (error instanceof DvoError) return error;
    const why = this.#options.redactor.scrub(describeError(error));
    return new ApiError(`${exchange.operation}: no whole answer: ${why}`, {
      operation: exchange.operation,
      cause: error,
    });
  }

  async #text(exchange: Exchange, response: FetchResponse): Promise<string> {
    try {
      const text = await readText(response, LARGEST_BODY_BYTES);
      if (text === undefined) throw new ApiError(`${exchange.operation}: the answer is too large`);
      return text;
    } catch (error) {
      throw this.#broken(exchange, error);
    }
  }

  #refused(exchange: Exchange, response: FetchResponse, text: string): ApiError {
    const { redactor, clock } = this.#options;
    const excerpt = redactor.scrub(text.replaceAll(/\s+/g, ' ').slice(0, EXCERPT_LENGTH));
    const retryAfterMs = parseRetryAfter(response.headers.get('retry-after'), clock.now());
    const { operation } = exchange;
    const { status } = response;
    const believed = contentOf(text) !== undefined || isHarmless(status);
    const what = believed
      ? `Devin answered ${status}`
      : `the answer cannot be read: ${status}, but neither JSON nor empty`;
    return new ApiError(`${operation}: ${what}: ${excerpt}`, {
      operation,
      ...(believed ? { status } : {}),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  }
}

/** Devin's API answers with JSON or with nothing. Undefined: something in between wrote this, whatever its status. */
function contentOf(text: string): Pick<Answer, 'body'> | undefined {
  const body = parseJson(text);
  return body !== undefined || text.trim() === '' ? { body } : undefined;
}

/** Nothing is concluded from these about a session; they make us wait, and are taken from whoever answers. */
function isHarmless(status: number): boolean {
  return status === 401 || status === 403 || status === 429 || status >= 500;
}

/** Seconds, or an HTTP date, as milliseconds from `now`. */
export function parseRetryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1_000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
