/** From URL to route, with the faults that were asked for in between. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import type { Connect } from './connect.ts';
import type { Distribution } from './distribution.ts';
import { readBody, sendHtml, sendJson, sendText } from './http.ts';
import type { QueueRoutes } from './queue-routes.ts';
import type { Fault, Faults, Knobs, Route } from './settings.ts';

export interface RouterOptions {
  readonly outpostId: string;
  readonly knobs: Knobs;
  readonly faults: Faults;
  readonly queue: QueueRoutes;
  readonly distribution: Distribution;
  readonly connect: Connect;
  readonly clock: Clock;
}

interface Matched {
  readonly route: Route;
  readonly sessionId?: string;
  readonly open: boolean;
  readonly answer: (response: ServerResponse) => Promise<void> | void;
}

const PREFIX = '/opbeta/outposts';
const ACCEPTOR = z.object({ acceptor_id: z.string() });

export class Router {
  readonly #options: RouterOptions;
  readonly #counts: Record<string, number> = {};

  constructor(options: RouterOptions) {
    this.#options = options;
  }

  /** Requests so far, by route. */
  get counts(): Readonly<Record<string, number>> {
    return { ...this.#counts };
  }

  async respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { knobs, faults } = this.#options;
    const matched = this.#match(request);
    if (matched === undefined) {
      sendText(response, 404, 'no such route');
      return;
    }
    this.#counts[matched.route] = (this.#counts[matched.route] ?? 0) + 1;
    if (!matched.open && request.headers.authorization !== `Bearer ${knobs.token}`) {
      sendJson(response, 401, { error: 'unauthorized' });
      return;
    }
    const fault = faults.take(matched.route, matched.sessionId);
    if (fault === undefined) await matched.answer(response);
    else await this.#misbehave(fault, matched, request, response);
  }

  async #misbehave(
    fault: Fault,
    matched: Matched,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    switch (fault.kind) {
      case 'status':
        response.writeHead(fault.status ?? 500, fault.headers).end('{"error":"as asked for"}');
        return;
      case 'html':
        sendHtml(response, fault.status ?? 200);
        return;
      case 'reset':
        request.socket.destroy();
        return;
      case 'reset-after': {
        // The call takes effect; its answer is never seen.
        response.write = () => true;
        response.end = () => response;
        await matched.answer(response);
        request.socket.destroy();
        return;
      }
      case 'hang':
        return;
      case 'cut':
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write('{"items":[');
        await this.#options.clock.sleep(20);
        request.socket.destroy();
        return;
      case 'delay':
        await this.#options.clock.sleep(fault.ms ?? 1_000);
        await matched.answer(response);
    }
  }

  #match(request: IncomingMessage): Matched | undefined {
    const url = new URL(request.url ?? '/', 'http://emulator');
    const path = url.pathname;
    if (path.startsWith('/remote/')) return this.#download(path.slice('/remote/'.length));
    if (path === `${PREFIX}/devins`) {
      const watch = url.searchParams.get('watch') === 'true';
      const { queue } = this.#options;
      return watch
        ? { route: 'watch', open: false, answer: (response) => queue.watch(url, request, response) }
        : { route: 'list', open: false, answer: (response) => queue.list(url, response) };
    }
    if (path.startsWith(`${PREFIX}/devins/`))
      return this.#devin(path.slice(`${PREFIX}/devins/`.length), request);
    const { connect } = this.#options;
    if (path === '/outposts/connect') {
      const answer = (response: ServerResponse): void => connect.authorize(url.searchParams, response);
      return { route: 'connect', open: true, answer };
    }
    if (path === '/outposts/connection-token') {
      const answer = async (response: ServerResponse): Promise<void> =>
        connect.exchange(new URLSearchParams(await readBody(request)), response);
      return { route: 'connection-token', open: true, answer };
    }
    if (path.startsWith(PREFIX)) return this.#outposts(path.slice(PREFIX.length).replace(/^\/outposts/, ''));
    return undefined;
  }

  #devin(rest: string, request: IncomingMessage): Matched | undefined {
    const { queue } = this.#options;
    const [encoded = '', verb] = rest.split('/');
    const sessionId = decodeURIComponent(encoded);
    if (verb === undefined)
      return { route: 'get', sessionId, open: false, answer: (response) => queue.get(sessionId, response) };
    if (verb !== 'claim' && verb !== 'release') return undefined;
    return {
      route: verb,
      sessionId,
      open: false,
      async answer(response) {
        const body = ACCEPTOR.safeParse(JSON.parse(await readBody(request)));
        if (!body.success) sendJson(response, 422, { error: 'acceptor_id is missing' });
        else queue[verb](sessionId, body.data.acceptor_id, response);
      },
    };
  }

  #download(file: string): Matched | undefined {
    const { distribution } = this.#options;
    if (file === 'latest_linux_x64') {
      return { route: 'latest', open: true, answer: (response) => distribution.sendLatest(response) };
    }
    const [, sha, checksum] = /^devin-remote_([0-9a-f]+)_linux_x64(\.sha256)?$/.exec(file) ?? [];
    if (sha === undefined) return undefined;
    return checksum === undefined
      ? { route: 'binary', open: true, answer: (response) => distribution.sendBinary(sha, response) }
      : { route: 'checksum', open: true, answer: (response) => distribution.sendChecksum(sha, response) };
  }

  #outposts(rest: string): Matched {
    const { outpostId } = this.#options;
    const outpost = {
      metadata: { outpost_id: outpostId, account_id: 'account-emulator', created_at: 0 },
      spec: { name: 'emulator', platform: 'linux', description: '' },
      status: {},
    };
    return {
      route: 'outposts',
      open: false,
      answer(response) {
        if (rest === '' || rest === '/')
          sendJson(response, 200, { items: [outpost], end_cursor: null, has_next_page: false });
        else if (rest === `/${encodeURIComponent(outpostId)}`) sendJson(response, 200, outpost);
        else sendJson(response, 404, { error: 'not_found' });
      },
    };
  }
}
