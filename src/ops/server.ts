/**
 * The ops server: a table of routes by method and path, behind one guard. It knows HTTP; what the routes show is
 * handed in.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { describeError, DvoError, systemCode } from '../lib/errors.ts';
import { closeServer, listenOn } from '../lib/http-server.ts';
import type { Logger } from '../lib/log.ts';
import type { Access } from './access.ts';

export interface Route {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  /** open: for probes and for the way in; guarded: who may come in; control: only the commands beside the daemon. */
  readonly access: 'open' | 'guarded' | 'control';
  readonly handle: (
    request: IncomingMessage,
    response: ServerResponse,
    visitor: 'operator' | 'known' | 'stranger',
  ) => void | Promise<void>;
}

export interface OpsOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly routes: readonly Route[];
  readonly access: Pick<Access, 'judge'>;
  readonly log: Logger;
}

export interface OpsServer {
  readonly url: string;
  close(): Promise<void>;
}

/** @throws DvoError `config` when the address cannot be used, naming OPS_HOST and OPS_PORT */
export async function startOpsServer(options: OpsOptions): Promise<OpsServer> {
  const { host, port, log } = options;
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000, keepAliveTimeout: 5_000 });
  const table = tableOf(options.routes);
  server.on('request', (request, response) => {
    respond(table, options.access, request, response).catch((error: unknown) => {
      log.error('ops request failed', { error: describeError(error) });
      response.destroy();
    });
  });
  const bound = await listenOn(server, port, host).catch((error: unknown) => {
    throw addressError(options, error);
  });
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    close: () => closeServer(server),
  };
}

type Table = ReadonlyMap<string, ReadonlyMap<string, Route>>;

function tableOf(routes: readonly Route[]): Table {
  const table = new Map<string, Map<string, Route>>();
  for (const route of routes) {
    const methods = table.get(route.path) ?? new Map<string, Route>();
    table.set(route.path, methods.set(route.method, route));
  }
  return table;
}

async function respond(
  table: Table,
  access: OpsOptions['access'],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const visitor = access.judge(request);
  if (visitor === 'misdirected') return sendText(response, 421, `${UNKNOWN_NAME}\n`);
  if (visitor === 'foreign') return sendText(response, 403, 'not from a page of another site\n');
  const methods = table.get(pathOf(request));
  if (methods === undefined) {
    const known = [...table.keys()].filter((path) => !path.startsWith('/page/')).join(' ');
    return sendText(response, 404, `not here; there are ${known}\n`);
  }
  // Node leaves the body out of an answer to HEAD by itself.
  const route = methods.get(request.method === 'HEAD' ? 'GET' : (request.method ?? ''));
  if (route === undefined) {
    response.writeHead(405, { allow: [...methods.keys()].join(', ') }).end();
    return;
  }
  if (route.access === 'guarded' && visitor === 'stranger') return refuse(route, response);
  if (route.access === 'control' && visitor !== 'operator')
    return sendText(response, 403, 'only for the commands of dvo, with the control token in STATE_DIR\n');
  await route.handle(request, response, visitor);
}

const UNKNOWN_NAME =
  'this name is not mine: ask for 127.0.0.1 or localhost, or set OPS_TOKEN to be reachable by other names';

function refuse(route: Route, response: ServerResponse): void {
  if (route.path === '/') {
    response.writeHead(303, { location: '/login', 'cache-control': 'no-store' }).end();
    return;
  }
  response.setHeader('www-authenticate', 'Bearer realm="dvo"');
  sendText(response, 401, 'send OPS_TOKEN as bearer, or log in at /login\n');
}

/** The path without its query. A target that is no path is nobody's. */
function pathOf(request: IncomingMessage): string {
  const { url = '/' } = request;
  return url.startsWith('/') ? (url.split('?', 1)[0] ?? '/') : '';
}

export function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' });
  response.end(text);
}

/** `json`: the finished text. */
export function sendJson(response: ServerResponse, status: number, json: string): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(`${json}\n`);
}

function addressError(options: OpsOptions, error: unknown): DvoError {
  const where = `OPS_HOST=${options.host} OPS_PORT=${options.port}`;
  const why =
    systemCode(error) === 'EADDRINUSE'
      ? 'the port is in use; choose another OPS_PORT, or 0'
      : describeError(error);
  return new DvoError('config', `${where} cannot be listened on: ${why}`, { cause: error });
}
