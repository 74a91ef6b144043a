import { http, HttpResponse } from 'msw';
import { setupServer } from 'msw/node';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemClock, systemRandom, type Clock } from '../../src/lib/clock.ts';
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

/** A second is a millisecond, so that waits between tries cost nothing. */
const hurried: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 1_000, signal) };
const PATIENT = 5_000_000;

const call = (timeoutMs = 5_000): Call => ({ timeoutMs, signal: new AbortController().signal });

function api(clock: Clock = systemClock) {
  const codes: string[] = [];
  const redactor = new Redactor();
  redactor.add(TOKEN);
  const client = createOutpostsApi({
    baseUrl: BASE,
    outpostId: 'o',
    acceptorId: 'me',
    token: () => new Secret(TOKEN),
    fetch,
    clock,
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
    const { client } = api(hurried);
    server.use(http.get(DEVINS, () => HttpResponse.html('<h1>gateway</h1>')));
    await expect(client.list({}, call(PATIENT))).rejects.toThrow('cannot be read');
    server.use(http.get(DEVINS, () => HttpResponse.json({ hello: 1 })));
    await expect(client.list({}, call(PATIENT))).rejects.toThrow('no items');
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

  it('waits out a short Retry-After itself, and hands a long one to its caller at once', async () => {
    const { client, codes } = api(hurried);
    let wait = '4';
    server.use(
      http.get(`${DEVINS}/a`, () => {
        if (codes.length > 0 && wait === '4') return HttpResponse.json(claimed('me'));
        return new HttpResponse('{}', { status: 429, headers: { 'retry-after': wait } });
      }),
    );
    expect(await client.get('a', call(PATIENT))).toMatchObject({ acceptorId: 'me' });
    expect(codes.splice(0)).toEqual(['429', '200']);
    wait = '60';
    await expect(client.get('a', call(PATIENT))).rejects.toMatchObject({ status: 429, retryAfterMs: 60_000 });
    expect(codes).toEqual(['429']);
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

  it('an entry has left the queue when Devin says so, with JSON or without a word', async () => {
    const { client } = api();
    for (const body of [null, ' ', '{"error":"not_found"}']) {
      server.use(http.all(`${DEVINS}/*`, () => new HttpResponse(body, { status: 404 })));
      expect(await client.get('a', call())).toBeUndefined();
      expect(await client.claim('a', call())).toEqual({ kind: 'absent' });
      await client.release('a', call());
    }
  });

  it.each([
    [404, '<!doctype html><title>Not found</title>'],
    [404, '404 page not found'],
    [409, '<h1>Conflict</h1>'],
    [200, '<h1>Log in to the network</h1>'],
  ])(
    'a page of something in between is no answer: it ends nothing, and is asked past: %d %s',
    async (status, page) => {
      const { client } = api(hurried);
      const inTheWay = http.all(`${DEVINS}/*`, () => new HttpResponse(page, { status }));
      const calls = {
        get: () => client.get('a', call(PATIENT)),
        claim: () => client.claim('a', call(PATIENT)),
        release: () => client.release('a', call(PATIENT)),
      };
      server.use(inTheWay);
      for (const [operation, ask] of Object.entries(calls)) {
        const error: unknown = await ask().catch((thrown: unknown) => thrown);
        expect(error, operation).toBeInstanceOf(ApiError);
        // Without a status it counts as passing, like an answer that never came.
        expect(error, operation).toMatchObject({ status: undefined, message: expect.stringContaining(page) });
      }
      server.resetHandlers();
      server.use(http.get(`${DEVINS}/a`, () => HttpResponse.json(claimed('me'))));
      server.use(http.get(`${DEVINS}/a`, () => new HttpResponse(page, { status }), { once: true }));
      expect(await calls.get()).toMatchObject({ acceptorId: 'me' });
    },
  );

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
