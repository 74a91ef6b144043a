/** The real fetch: undici's, on an agent of our own whose every wait has a limit. */
import { Agent, fetch as undiciFetch } from 'undici';
import type { Fetch } from '../lib/fetch.ts';

export interface HttpOptions {
  /** Silence inside an answer after which the connection is dead; above the watch's own idle limit. Milliseconds; 0: no limit. */
  readonly bodyTimeoutMs: number;
}

export interface Http {
  readonly fetch: Fetch;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 10_000;
const HEADERS_TIMEOUT_MS = 30_000;
/** Renewals, looks and claims of a thousand sessions, beside the watch. */
const CONNECTIONS = 64;

export function createHttp(options: HttpOptions): Http {
  const agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: HEADERS_TIMEOUT_MS,
    bodyTimeout: options.bodyTimeoutMs,
    connections: CONNECTIONS,
  });
  return {
    fetch: (url, init) => undiciFetch(url, { ...init, dispatcher: agent }),
    // Not close(): that waits for the watch, which is open for minutes.
    close: () => agent.destroy(),
  };
}
