/** The ops server: health, readiness, metrics. It reads; it changes nothing. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { describeError, DvoError, systemCode } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Health, Verdict } from './health.ts';

export interface OpsOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  readonly health: Health;
  readonly metrics: { readonly contentType: string; readonly text: () => Promise<string> };
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
  server.on('request', (request, response) => {
    respond(options, request, response).catch((error: unknown) => {
      log.error('ops request failed', { error: describeError(error) });
      response.destroy();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(addressError(options, error)));
    server.listen(port, host, resolve);
  });
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function respond(
  options: OpsOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { health, metrics } = options;
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.writeHead(405, { allow: 'GET, HEAD' }).end();
    return;
  }
  switch (new URL(request.url ?? '/', 'http://ops').pathname) {
    case '/healthz':
      return sendVerdict(response, health.alive());
    case '/readyz':
      return sendVerdict(response, health.ready());
    case '/metrics':
      response.writeHead(200, { 'content-type': metrics.contentType, 'cache-control': 'no-store' });
      response.end(await metrics.text());
      return;
    default:
      response
        .writeHead(404, { 'content-type': 'text/plain' })
        .end('not here: try /healthz, /readyz or /metrics\n');
  }
}

function sendVerdict(response: ServerResponse, verdict: Verdict): void {
  response.writeHead(verdict.ok ? 200 : 503, {
    'content-type': 'application/json',
    'cache-control': 'no-store',
  });
  response.end(`${JSON.stringify(verdict)}\n`);
}

function addressError(options: OpsOptions, error: Error): DvoError {
  const where = `OPS_HOST=${options.host} OPS_PORT=${options.port}`;
  const why =
    systemCode(error) === 'EADDRINUSE' ? 'the port is in use; choose another OPS_PORT, or 0' : error.message;
  return new DvoError('config', `${where} cannot be listened on: ${why}`, { cause: error });
}
