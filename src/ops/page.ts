/**
 * The status page: files of page/, read once at start and served as they are. The policy lets the browser run and load
 * nothing but these, so that a hostile session id stays text even if the page had a fault.
 */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { Route } from './server.ts';

const TYPES = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
} as const;

/** What the pages load. It is the same for everybody, so the login form may use it too. */
const ASSETS = ['page.css', 'page.js', 'sessions.js', 'drawing.js', 'words.js', 'icon.svg'] as const;
const PAGES = ['index.html', 'login.html', 'login-refused.html'] as const;
type Page = (typeof PAGES)[number];

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  // Not no-referrer: the browser would then send forms from nowhere (`Origin: null`), which is refused.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

const files = new Map<string, Buffer>(
  [...ASSETS, ...PAGES].map((name) => [name, readFileSync(new URL(`page/${name}`, import.meta.url))]),
);

export function pageRoutes(): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/',
      access: 'guarded',
      handle: (_, response) => sendPage(response, 200, 'index.html'),
    },
    ...ASSETS.map((name): Route => ({
      method: 'GET',
      path: `/page/${name}`,
      access: 'open',
      handle: (_, response) => sendFile(response, 200, name),
    })),
  ];
}

export function sendPage(response: ServerResponse, status: number, page: Page): void {
  sendFile(response, status, page);
}

function sendFile(response: ServerResponse, status: number, name: Page | (typeof ASSETS)[number]): void {
  const kind = Object.entries(TYPES).find(([ending]) => name.endsWith(`.${ending}`));
  response.writeHead(status, { ...HEADERS, 'content-type': kind?.[1] ?? TYPES.html });
  response.end(files.get(name));
}
