import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readSse } from '../../src/outposts/sse.ts';
import { parseEntry, parseEvent, parseGrant, parsePage } from '../../src/outposts/wire.ts';

function entry(raw: unknown) {
  const parsed = parseEntry(raw);
  if (parsed.kind === 'bad') throw new Error(parsed.why);
  return parsed.value;
}

const AT = 1_800_000_000;

describe('Q3: a queue entry', () => {
  it.each([
    [{ metadata: { session_id: 'a' } }],
    [{ metadata: { sessionId: 'a' } }],
    [{ metadata: { id: 'a' } }],
    [{ session_id: 'a' }],
    [{ sessionId: 'a', metadata: {} }],
    [{ id: 'a', metadata: null }],
    [{ metadata: { session_id: 'a', sessionId: 'b' }, session_id: 'c' }],
  ])('finds the session id in %o', (raw) => {
    expect(entry(raw).sessionId).toBe('a');
  });

  it.each([
    [AT, AT * 1_000],
    [AT + 0.5, AT * 1_000 + 500],
    [AT * 1_000, AT * 1_000],
    [String(AT), AT * 1_000],
    [new Date(AT * 1_000).toISOString(), AT * 1_000],
    [null, undefined],
    ['soon', undefined],
    [-1, undefined],
    [Number.NaN, undefined],
  ])('reads the deadline %o as %o', (given, expected) => {
    expect(entry({ id: 'a', status: { claim_deadline: given } }).claimDeadline).toBe(expected);
  });

  it.each([
    ['pending', 'pending'],
    ['new', 'pending'],
    ['RUNNING', 'running'],
    ['claimed', 'running'],
    ['resuming', 'running'],
    ['suspended', 'suspended'],
    ['terminated', 'terminated'],
    ['exit', 'over'],
    ['error', 'over'],
    ['hibernating', 'unknown'],
    [undefined, 'unknown'],
    [7, 'unknown'],
  ])('reads the status %o as %s', (given, expected) => {
    expect(entry({ id: 'a', status: { session_status: given } }).status).toBe(expected);
  });

  it('degrades unknown values, and fails on a missing id', () => {
    expect(
      entry({ id: 'a', spec: { kind: 'fork', platform: 'Plan9' }, status: { phase: 'parked' } }),
    ).toMatchObject({
      kind: 'unknown',
      platform: 'plan9',
      phase: 'unknown',
    });
    expect(entry({ id: 'a' }).platform).toBe('linux');
    for (const raw of [
      {},
      null,
      [],
      'a',
      { metadata: {} },
      { id: 7 },
      { id: '' },
      { id: 'x'.repeat(5_000) },
    ]) {
      expect(parseEntry(raw).kind).toBe('bad');
    }
  });

  it('Q7: never reads a policy that it does not understand as none', () => {
    const policy = (given: unknown) => entry({ id: 'a', spec: { network_policy: given } }).networkPolicy;
    expect(policy(undefined)).toBeUndefined();
    expect(policy({ enabled: false, allow: [{ hostname: 'x' }] })).toEqual({ enabled: false, allow: [] });
    expect(
      policy({ enabled: true, allow: [{ hostname: 'a.b' }, { ipv4: '1.2.3.4' }, { asn: 7 }] })?.allow,
    ).toEqual([
      { kind: 'hostname', value: 'a.b' },
      { kind: 'ipv4', value: '1.2.3.4' },
      { kind: 'unknown', value: 'asn' },
    ]);
    for (const odd of ['locked', 7, [], { allow: 'all' }, {}]) expect(policy(odd)?.enabled).toBe(true);
  });

  it('reads a grant from both places', () => {
    const nested = parseGrant({ id: 'a', status: { connect_token: 't', gateway_url: 'g' } });
    const flat = parseGrant({ id: 'a', connectToken: 't', gatewayUrl: 'g' });
    expect(nested).toMatchObject({ value: { connectToken: 't', gatewayUrl: 'g' } });
    expect(flat).toMatchObject({ value: { connectToken: 't', gatewayUrl: 'g' } });
  });

  it('reads any JSON without throwing, and invents nothing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (raw) => {
        const parsed = parseEntry(raw);
        if (parsed.kind === 'ok')
          expect(JSON.stringify(raw)).toContain(JSON.stringify(parsed.value.sessionId));
        parsePage(raw, 100);
        parseGrant(raw);
        parseEvent(JSON.stringify(raw));
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('a page', () => {
  const page = (raw: unknown) => {
    const parsed = parsePage(raw, 2);
    return parsed.kind === 'ok' ? { cursor: parsed.value.cursor, hasNext: parsed.value.hasNext } : 'bad';
  };
  it.each([
    [
      { items: [], cursor: 'c', has_next_page: true },
      { cursor: 'c', hasNext: true },
    ],
    [
      { items: [], nextCursor: 'c', hasNextPage: false },
      { cursor: 'c', hasNext: false },
    ],
    [
      { items: [1, 2], end_cursor: 'c' },
      { cursor: 'c', hasNext: true },
    ],
    [
      { items: [1], endCursor: 'c' },
      { cursor: 'c', hasNext: false },
    ],
    [{ items: [1, 2] }, { cursor: undefined, hasNext: false }],
    [{ rows: [] }, 'bad'],
    ['<html>', 'bad'],
  ])('reads %o as %o', (raw, expected) => {
    expect(page(raw)).toEqual(expected);
  });
});

describe('W5: an event', () => {
  it.each([
    ['{"type":"MODIFIED","object":{"id":"a"},"cursor":"c"}', 'ok', 'c'],
    ['{"type":"added","data":{"id":"a"},"nextCursor":"c"}', 'ok', 'c'],
    ['{"type":"DELETED","session_id":"a"}', 'ok', undefined],
    ['{"type":"PAINTED","cursor":"c"}', 'bad', 'c'],
    ['{broken', 'bad', undefined],
    ['[]', 'bad', undefined],
  ])('%s is %s', (data, kind, cursor) => {
    const event = parseEvent(data);
    expect(event.kind).toBe(kind);
    expect(event.cursor).toBe(cursor);
  });

  it('comes out whole, wherever the bytes were cut', async () => {
    const text = ': keepalive\r\n\r\ndata: {"a":"雪☃"}\n\ndata: one\ndata: two\n\n';
    const bytes = Buffer.from(text);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: bytes.length })), async (cuts) => {
        const places = [0, ...cuts.toSorted((left, right) => left - right), bytes.length];
        const chunks = places.slice(1).map((end, at) => new Uint8Array(bytes.subarray(places[at], end)));
        const items: unknown[] = [];
        for await (const item of readSse(
          (async function* () {
            yield* chunks;
          })(),
        ))
          items.push(item);
        expect(items).toEqual([
          { kind: 'comment' },
          { kind: 'event', data: '{"a":"雪☃"}' },
          { kind: 'event', data: 'one\ntwo' },
        ]);
      }),
    );
  });

  it('is refused when it never ends', async () => {
    const endless = async function* () {
      for (;;) yield Buffer.from(`data: ${'x'.repeat(100_000)}`);
    };
    await expect(readSse(endless()).next()).rejects.toThrow('too large');
  });

  it('survives any bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array()), async (chunks) => {
        for await (const item of readSse(
          (async function* () {
            yield* chunks;
          })(),
        )) {
          if (item.kind === 'event') parseEvent(item.data);
        }
      }),
    );
  });
});
