/** Who may see what, over real sockets. */
import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { openOpsPage, type OpsPage } from '../support/ops-page.ts';
import { sampleView } from '../support/sample-view.ts';

const TOKEN = 'correct-horse-battery';
const NOW = 1_700_000_000_000;

interface Answer {
  readonly status: number | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

/** Not fetch: it would not let a test choose the Host header. */
async function ask(
  ops: OpsPage,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  method = 'GET',
  body = '',
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const url = new URL(ops.server.url);
    const sent = request({ host: url.hostname, port: url.port, path, method, headers }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const login = (ops: OpsPage, token: string): Promise<Answer> =>
  ask(
    ops,
    '/login',
    { 'content-type': 'application/x-www-form-urlencoded' },
    'POST',
    new URLSearchParams({ token }).toString(),
  );

describe('without OPS_TOKEN', () => {
  let ops: OpsPage;
  afterEach(async () => await ops[Symbol.asyncDispose]());

  it('answers to loopback names only, so that no web site can read it under its own name', async () => {
    ops = await openOpsPage(sampleView(1, NOW));
    const { port } = new URL(ops.server.url);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, 'localhost', `[::1]:${port}`]) {
      expect((await ask(ops, '/api/status', { host })).status, host).toBe(200);
    }
    for (const host of [
      'evil.example',
      `127.0.0.1.evil.example:${port}`,
      'localhost.evil.example',
      '@',
      'a b',
    ]) {
      expect((await ask(ops, '/api/status', { host })).status, host).toBe(421);
    }
  });

  it('takes no order from a page of another site', async () => {
    ops = await openOpsPage(sampleView(1, NOW));
    expect((await ask(ops, '/logout', { origin: 'https://evil.example' }, 'POST')).status).toBe(403);
    expect((await ask(ops, '/logout', { origin: 'null' }, 'POST')).status).toBe(403);
    expect((await ask(ops, '/logout', { origin: ops.server.url }, 'POST')).status).toBe(303);
    expect((await ask(ops, '/logout', {}, 'POST')).status).toBe(303);
  });
});

describe('with OPS_TOKEN', () => {
  let ops: OpsPage;
  afterEach(async () => await ops[Symbol.asyncDispose]());

  it('shows nothing to strangers, and everything to the bearer', async () => {
    ops = await openOpsPage(sampleView(1, NOW), TOKEN);
    for (const path of ['/api/status', '/api/events']) {
      const refused = await ask(ops, path);
      expect([refused.status, refused.headers['www-authenticate']]).toEqual([401, 'Bearer realm="dvo"']);
    }
    for (const authorization of ['Bearer wrong', `Basic ${TOKEN}`, 'Bearer ', `Bearer ${TOKEN}x`]) {
      expect((await ask(ops, '/api/status', { authorization })).status, authorization).toBe(401);
    }
    expect((await ask(ops, `/api/status?token=${TOKEN}`)).status).toBe(401);
    const seen = await ask(ops, '/api/status', { authorization: `Bearer ${TOKEN}`, host: 'status.example' });
    expect([seen.status, JSON.parse(seen.text).slots.max]).toEqual([200, 5]);
    const page = await ask(ops, '/');
    expect([page.status, page.headers['location']]).toEqual([303, '/login']);
  });

  it('trades the token for a cookie that ends with the token, and cannot be made up or stretched', async () => {
    ops = await openOpsPage(sampleView(1, NOW), TOKEN);
    expect((await login(ops, 'wrong')).status).toBe(401);
    expect((await login(ops, '')).status).toBe(401);
    const entered = await login(ops, TOKEN);
    expect(entered.status).toBe(303);
    const [set = ''] = entered.headers['set-cookie'] ?? [];
    expect(set).toMatch(/; HttpOnly; SameSite=Strict$/);
    expect(set).not.toContain(TOKEN);
    const cookie = set.split(';')[0] ?? '';
    expect((await ask(ops, '/api/status', { cookie: `other=1; ${cookie}` })).status).toBe(200);
    const [, endsAt = '', signature = ''] = /=(\d+)\.(.+)$/.exec(cookie) ?? [];
    for (const forged of [
      `dvo_ops=${Number(endsAt) + 1}.${signature}`,
      `dvo_ops=${endsAt}.${'0'.repeat(64)}`,
      `dvo_ops=${endsAt}.`,
      'dvo_ops=',
      `dvo_ops=${TOKEN}`,
    ]) {
      expect((await ask(ops, '/api/status', { cookie: forged })).status, forged).toBe(401);
    }
    const other = await openOpsPage(sampleView(1, NOW), TOKEN);
    expect((await ask(other, '/api/status', { cookie })).status).toBe(401);
    await other[Symbol.asyncDispose]();
  });

  it('reads no more of a form than a token can be', async () => {
    ops = await openOpsPage(sampleView(1, NOW), TOKEN);
    expect((await login(ops, 'x'.repeat(20_000))).status).toBe(413);
  });
});

describe('every answer of the page', () => {
  it('carries the policy, and is kept nowhere', async () => {
    await using ops = await openOpsPage(sampleView(1, NOW));
    for (const path of ['/', '/page/page.js', '/page/page.css', '/page/icon.svg']) {
      const { status, headers } = await ask(ops, path);
      expect(status, path).toBe(200);
      expect(headers['content-security-policy']).toContain("default-src 'none'");
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
    }
    for (const path of [
      '/page/../server.ts',
      '/page/',
      '/page/index.html',
      '//evil',
      '/page/%2e%2e/view.ts',
    ]) {
      expect((await ask(ops, path)).status, path).toBe(404);
    }
  });
});
