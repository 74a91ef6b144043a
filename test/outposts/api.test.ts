import { http, HttpResponse } from 'msw';
import { setupServer } from 'msw/node';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import type { Call } from '../../src/lib/deadline.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import { createOutpostsApi } from '../../src/outposts/api.ts';
import { ApiError } from '../../src/outposts/outposts.ts';
import { parseRetryAfter } from '../../src/outposts/transport.ts';

const BASE = 'http://devin.test';
const DEVINS = `${BASE}/opbeta/outposts/devins`;
const TOKEN = 'cog_secret_token';
const server = setupServer();

beforeAll(() => server.listen());
afterEach(() => server.resetHandlers());
afterAll(() => server.close());

const call = (timeoutMs = 5_000): Call => ({ timeoutMs, signal: new AbortController().signal });

function api() {
  const codes: string[] = [];
  const redactor = new Redactor();
  redactor.add(TOKEN);
  const client = createOutpostsApi({
    baseUrl: BASE,
    outpostId: 'o',
    acceptorId: 'me',
    token: () => new Secret(TOKEN),
    fetch,
    clock: systemClock,
    random: { next: () => 0, id: () => systemRandom.id() },
    log: silentLogger,
    redactor,
    observer: { request: (_, code) => codes.push(code), skipped: () => undefined },
  });
  return { client, codes };
}

const claimed = (acceptor: string) => ({
  metadata: { session_id: 'a' },
  status: { phase: 'claimed', acceptor_id: acceptor },
});

describe('Q9: odd answers of HTTP', () => {
  it('repeats what is likely to pass, and gives up on what is not', async () => {
    const { client, codes } = api();
    let tries = 0;
    server.use(
      http.get(`${DEVINS}/a`, () => {
        tries += 1;
        if (tries === 1) return new HttpResponse(null, { status: 503 });
        if (tries === 2) return HttpResponse.error();
        return HttpResponse.json(claimed('me'));
      }),
      http.get(`${DEVINS}/b`, () => new HttpResponse('{"error":"no"}', { status: 422 })),
    );
    expect(await client.get('a', call())).toMatchObject({ acceptorId: 'me' });
    expect(codes).toEqual(['503', 'error', '200']);
    await expect(client.get('b', call())).rejects.toMatchObject({ status: 422 });
    expect(codes).toHaveLength(4);
  });

  it('T4: does not repeat a refused token, names it as such, and never prints it', async () => {
    const { client, codes } = api();
    server.use(http.get(DEVINS, () => new HttpResponse(`bad token ${TOKEN}`, { status: 401 })));
    const error = await client.list({}, call()).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ unauthorized: true, status: 401 });
    expect(String(error)).not.toContain(TOKEN);
    expect(codes).toEqual(['401']);
  });

  it('refuses HTML, and JSON of another shape', async () => {
    const { client } = api();
    server.use(http.get(DEVINS, () => HttpResponse.html('<h1>gateway</h1>')));
    await expect(client.list({}, call())).rejects.toThrow('cannot be read');
    server.use(http.get(DEVINS, () => HttpResponse.json({ hello: 1 })));
    await expect(client.list({}, call())).rejects.toThrow('no items');
  });

  it('skips rows that it cannot read, and keeps the others', async () => {
    const { client } = api();
    server.use(
      http.get(DEVINS, () => HttpResponse.json({ items: [{ id: 'a' }, 7, {}, { id: 'b' }], cursor: 'c' })),
    );
    const page = await client.list({}, call());
    expect(page.entries.map((entry) => entry.sessionId)).toEqual(['a', 'b']);
    expect(page).toMatchObject({ skipped: 2, cursor: 'c' });
  });

  it('P5: a server that accepts and says nothing is left at the limit', async () => {
    const { client } = api();
    server.use(http.get(`${DEVINS}/a`, () => new Promise<never>(() => undefined)));
    await expect(client.get('a', call(200))).rejects.toMatchObject({ code: 'deadline' });
  });

  it.each([
    ['7', 7_000],
    ['0', 0],
    ['Thu, 01 Jan 1970 00:00:10 GMT', 10_000],
    ['soon', undefined],
    [null, undefined],
  ])('reads Retry-After %o as %o ms', (value, ms) => {
    expect(parseRetryAfter(value, 0)).toBe(ms);
  });
});

describe('Q4: claims', () => {
  it('takes 409 as an answer: lost, or ours after all', async () => {
    const { client } = api();
    server.use(http.post(`${DEVINS}/a/claim`, () => new HttpResponse('{}', { status: 409 })));
    server.use(http.get(`${DEVINS}/a`, () => HttpResponse.json(claimed('other'))));
    expect(await client.claim('a', call())).toEqual({ kind: 'lost' });
    server.use(http.get(`${DEVINS}/a`, () => HttpResponse.json(claimed('me'))));
    expect(await client.claim('a', call())).toMatchObject({ kind: 'held' });
    server.use(http.get(`${DEVINS}/a`, () => new HttpResponse(null, { status: 404 })));
    expect(await client.claim('a', call())).toEqual({ kind: 'absent' });
  });

  it('gives the token in a wrapper that does not print it, and a deadline when Devin names none', async () => {
    const { client } = api();
    const body = { ...claimed('me'), connect_token: 'ct_secret', gatewayUrl: 'wss://g' };
    server.use(http.post(`${DEVINS}/a/claim`, () => HttpResponse.json(body)));
    const before = Date.now();
    const result = await client.claim('a', call());
    expect(JSON.stringify(result)).not.toContain('ct_secret');
    expect(result).toMatchObject({ kind: 'claimed', grant: { gatewayUrl: 'wss://g' } });
    if (result.kind === 'claimed') {
      expect(result.grant.connectToken.reveal()).toBe('ct_secret');
      expect(result.grant.deadline - before).toBeGreaterThanOrEqual(299_000);
    }
  });

  it('a release that comes too late is a release', async () => {
    const { client } = api();
    for (const status of [200, 404, 409]) {
      server.use(http.post(`${DEVINS}/a/release`, () => new HttpResponse(null, { status })));
      await client.release('a', call());
    }
  });

  it('puts any session id into the URL whole, and refuses those that no URL can carry', async () => {
    const { client } = api();
    const asked: string[] = [];
    server.use(
      http.get(`${DEVINS}/*`, ({ request }) => {
        asked.push(decodeURIComponent(new URL(request.url).pathname.split('/').at(-1) ?? ''));
        return new HttpResponse(null, { status: 404 });
      }),
    );
    const ids = ['../x', 'a/b?c#d', '雪', '%2e%2e', 'a b'];
    for (const id of ids) await client.get(id, call());
    expect(asked).toEqual(ids);
    for (const id of ['.', '..', '\ud800'])
      await expect(client.get(id, call())).rejects.toThrow('cannot be part');
  });
});
