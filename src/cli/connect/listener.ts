/** The loopback listener that the browser is sent back to. Takes one answer, and shows how the attempt ended. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { describeError, DvoError, systemCode } from '../../lib/errors.ts';
import { listenOn } from '../../lib/http-server.ts';
import { endingPage, PAGE_HEADERS, type Ending } from './page.ts';

/** What the browser brought back. */
export type Answer =
  | { readonly kind: 'code'; readonly code: string; readonly state: string | undefined }
  | { readonly kind: 'refused'; readonly error: string };

export class CallbackListener implements AsyncDisposable {
  readonly #server: Server;
  readonly #answer = Promise.withResolvers<Answer>();
  readonly #ending = Promise.withResolvers<Ending>();
  readonly #pages: Promise<void>[] = [];
  /** Registered with Devin in this form; the name, not the number. */
  readonly url: string;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.url = `http://localhost:${port}/callback`;
    server.on('request', (request, response) => {
      const { url: path = '/' } = request;
      // `//` is a path, and no URL.
      const url = URL.canParse(path, this.url) ? new URL(path, this.url) : undefined;
      const answer = url?.pathname === '/callback' ? answerIn(url.searchParams) : undefined;
      if (request.method !== 'GET' || answer === undefined) {
        response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here\n');
        return;
      }
      // A browser that asks twice gets the same page twice; only the first answer counts.
      this.#answer.resolve(answer);
      this.#pages.push(this.#show(response));
    });
  }

  /** @throws DvoError `config` when the port cannot be had */
  static async open(port: number): Promise<CallbackListener> {
    const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 });
    const bound = await listenOn(server, port, '127.0.0.1').catch((error: unknown) => {
      throw portError(port, error);
    });
    return new CallbackListener(server, bound);
  }

  answered(): Promise<Answer> {
    return this.#answer.promise;
  }

  /** The page for whoever asked or asks, until the listener is closed. */
  end(ending: Ending): void {
    this.#ending.resolve(ending);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.end({ ok: false, title: 'Not connected', text: 'dvo connect was ended.' });
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await Promise.all(this.#pages);
    this.#server.closeAllConnections();
    await closed;
  }

  async #show(response: ServerResponse): Promise<void> {
    const gone = new Promise<void>((resolve) => response.once('close', resolve));
    const ending = await this.#ending.promise;
    response.writeHead(ending.ok ? 200 : 400, { ...PAGE_HEADERS, connection: 'close' });
    response.end(endingPage(ending));
    // The page has to be out before the listener is closed.
    await gone;
  }
}

/** Undefined: neither an answer nor a refusal. */
function answerIn(query: URLSearchParams): Answer | undefined {
  const error = query.get('error');
  if (error !== null) return { kind: 'refused', error: error.replaceAll(/[^\w .-]/g, '?').slice(0, 100) };
  const code = query.get('code');
  if (code === null || code === '') return undefined;
  return { kind: 'code', code, state: query.get('state') ?? undefined };
}

function portError(port: number, error: unknown): DvoError {
  const why =
    systemCode(error) === 'EADDRINUSE'
      ? `port ${port} is in use; end what listens there (another dvo connect?), or choose another --port`
      : `port ${port} cannot be listened on: ${describeError(error)}`;
  return new DvoError('config', why, { cause: error });
}
