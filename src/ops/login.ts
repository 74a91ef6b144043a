/** The way in for people: a form that trades OPS_TOKEN for a cookie, and the way out. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from '../lib/log.ts';
import type { Access } from './access.ts';
import { readBody } from './body.ts';
import { sendPage } from './page.ts';
import { sendText, type Route } from './server.ts';

export function loginRoutes(access: Access, log: Logger): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/login',
      access: 'open',
      handle: (_, response) =>
        access.isOpen ? redirect(response, '/') : sendPage(response, 200, 'login.html'),
    },
    {
      method: 'POST',
      path: '/login',
      access: 'open',
      handle: async (request, response) => await login(access, log, request, response),
    },
    {
      method: 'POST',
      path: '/logout',
      access: 'open',
      handle: (_, response) => redirect(response, '/login', access.noCookie),
    },
  ];
}

async function login(
  access: Access,
  log: Logger,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const form = await readBody(request);
  if (form === undefined) return sendText(response, 413, 'too long\n');
  const token = new URLSearchParams(form).get('token') ?? '';
  if (access.isToken(token.trim())) return redirect(response, '/', access.cookie());
  log.warn('ops login refused', { from: request.socket.remoteAddress });
  sendPage(response, 401, 'login-refused.html');
}

function redirect(response: ServerResponse, location: string, cookie?: string): void {
  if (cookie !== undefined) response.setHeader('set-cookie', cookie);
  response.writeHead(303, { location, 'cache-control': 'no-store' }).end();
}
