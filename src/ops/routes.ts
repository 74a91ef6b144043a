/** What the ops server shows besides the page: health, readiness, metrics, status. All of it only reads. */
import type { ServerResponse } from 'node:http';
import type { Health, Verdict } from './health.ts';
import { sendJson, type Route } from './server.ts';
import type { StatusView } from './view.ts';

/** Open, because a probe has no credentials; a stranger learns that it is not ready, not why. */
export function healthRoutes(health: Health): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/healthz',
      access: 'open',
      handle: (_, response) => sendVerdict(response, health.alive()),
    },
    {
      method: 'GET',
      path: '/readyz',
      access: 'open',
      handle(_, response, visitor) {
        const verdict = health.ready();
        sendVerdict(response, visitor === 'stranger' ? { ...verdict, reasons: [] } : verdict);
      },
    },
  ];
}

export function metricsRoute(metrics: {
  readonly contentType: string;
  readonly text: () => Promise<string>;
}): Route {
  return {
    method: 'GET',
    path: '/metrics',
    access: 'guarded',
    async handle(_, response) {
      const text = await metrics.text();
      response.writeHead(200, { 'content-type': metrics.contentType, 'cache-control': 'no-store' });
      response.end(text);
    },
  };
}

export function statusRoute(status: () => StatusView): Route {
  return {
    method: 'GET',
    path: '/api/status',
    access: 'guarded',
    handle: (_, response) => sendJson(response, 200, JSON.stringify(status())),
  };
}

function sendVerdict(response: ServerResponse, verdict: Verdict): void {
  sendJson(response, verdict.ok ? 200 : 503, JSON.stringify(verdict));
}
