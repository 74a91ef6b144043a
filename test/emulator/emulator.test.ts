import { createHash, randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { until } from '../support/until.ts';

describe('the emulator', () => {
  let emulator: Emulator;

  beforeEach(async () => {
    emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
  });
  afterEach(async () => {
    await emulator.stop();
  });

  const ask = async (
    path: string,
    init: RequestInit = {},
  ): Promise<{ status: number; body: Record<string, never> }> => {
    const headers = {
      authorization: `Bearer ${emulator.knobs.token}`,
      ...Object.fromEntries(new Headers(init.headers)),
    };
    const response = await fetch(`${emulator.url}/opbeta/outposts${path}`, { ...init, headers });
    const text = await response.text();
    return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : {} };
  };
  const claim = (id: string, acceptor: string) =>
    ask(`/devins/${id}/claim`, { method: 'POST', body: JSON.stringify({ acceptor_id: acceptor }) });

  it('gives one of fifty claimers the session, and 409 to the others', async () => {
    emulator.enqueue({ sessionId: 'a' });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, at) => claim('a', `acceptor-${at}`)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(49);
  });

  it('renews for the same acceptor with a new token, and lets a claim lapse', async () => {
    emulator.enqueue({ sessionId: 'a' });
    const first = await claim('a', 'me');
    const second = await claim('a', 'me');
    expect(second.status).toBe(200);
    expect(second.body['status']).not.toEqual(first.body['status']);
    emulator.expire('a');
    expect((await claim('a', 'other')).status).toBe(200);
  });

  it('pages through ten thousand rows once each, and hands its cursor over to the watch', async () => {
    for (let at = 0; at < 10_000; at += 1) emulator.enqueue({ sessionId: `s-${at}` });
    const seen = new Set<string>();
    let cursor = '';
    for (;;) {
      const { body } = await ask(`/devins?first=200${cursor === '' ? '' : `&cursor=${cursor}`}`);
      const { items, has_next_page, cursor: next } = body as unknown as Page;
      for (const { metadata } of items) seen.add(metadata.session_id);
      cursor = next;
      if (!has_next_page) break;
    }
    expect(seen.size).toBe(10_000);
    const headers = { authorization: `Bearer ${emulator.knobs.token}` };
    const watch = await fetch(`${emulator.url}/opbeta/outposts/devins?watch=true&cursor=${cursor}`, {
      headers,
    });
    emulator.enqueue({ sessionId: 'late' });
    let text = '';
    for await (const chunk of watch.body ?? []) {
      text += Buffer.from(chunk).toString();
      if (text.includes('late')) break;
    }
    expect(text).not.toContain('"s-1"');
  });

  it('says 401 to another token, and 404 to what is not there', async () => {
    expect((await ask('/devins', { headers: { authorization: 'Bearer other' } })).status).toBe(401);
    expect((await ask('/devins/nobody')).status).toBe(404);
    expect((await ask(`/${emulator.outpostId}`)).status).toBe(200);
    expect((await ask(`/outposts/${emulator.outpostId}`)).status).toBe(200);
  });

  it('shows a suspended row for a moment, and a tombstone of a terminated one', async () => {
    emulator.knobs.suspendedVisibleMs = 50;
    emulator.knobs.tombstoneMs = 50;
    for (const id of ['a', 'b']) emulator.enqueue({ sessionId: id });
    emulator.sleep('a');
    emulator.terminate('b');
    await until(async () => JSON.stringify((await ask('/devins/a')).body).includes('suspended'));
    await until(async () => (await ask('/devins/a')).status === 404);
    await until(async () => (await ask('/devins/b')).status === 404);
  });

  it('exchanges a code once, for the right verifier only', async () => {
    const verifier = randomBytes(32).toString('base64url');
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    const authorize = async (): Promise<string> => {
      const query = new URLSearchParams({
        callback_url: 'http://localhost:8765/callback',
        code_challenge: challenge,
      });
      const response = await fetch(`${emulator.url}/outposts/connect?${query.toString()}`, {
        redirect: 'manual',
      });
      return new URL(response.headers.get('location') ?? '').searchParams.get('code') ?? '';
    };
    const exchange = async (code: string, code_verifier: string): Promise<Response> =>
      await fetch(`${emulator.url}/outposts/connection-token`, {
        method: 'POST',
        body: new URLSearchParams({ grant_type: 'authorization_code', code, code_verifier }),
      });
    const code = await authorize();
    const first = await exchange(code, verifier);
    expect(await first.json()).toMatchObject({
      access_token: emulator.knobs.token,
      outpost_id: emulator.outpostId,
    });
    expect((await exchange(code, verifier)).status).toBe(400);
    expect((await exchange(await authorize(), 'another')).status).toBe(400);
  });

  it('is driven and broken over its control API', async () => {
    const control = async (verb: string, body: unknown) =>
      await fetch(`${emulator.controlUrl}/control/${verb}`, { method: 'POST', body: JSON.stringify(body) });
    await control('enqueue', { sessionId: 'a' });
    await control('fault', { route: 'list', kind: 'status', status: 418 });
    expect((await ask('/devins')).status).toBe(418);
    expect((await ask('/devins')).status).toBe(200);
    expect((await control('knobs', { nonsense: 1 })).status).toBe(400);
    expect((await control('enqueue', {})).status).toBe(400);
    expect((await control('dance', {})).status).toBe(404);
    const state = await (await fetch(`${emulator.controlUrl}/control/state`)).json();
    expect(state).toMatchObject({ depth: 1, violations: [] });
  });
});

interface Page {
  readonly items: readonly { readonly metadata: { readonly session_id: string } }[];
  readonly has_next_page: boolean;
  readonly cursor: string;
}
