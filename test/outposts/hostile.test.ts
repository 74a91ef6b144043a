import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/lib/clock.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { DvoError } from '../../src/lib/errors.ts';
import type { Fetch } from '../../src/lib/fetch.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import { createOutpostsApi } from '../../src/outposts/api.ts';
import type { OutpostsApi } from '../../src/outposts/outposts.ts';
import { Sightings } from '../../src/outposts/sightings.ts';
import { readSse, type SseItem } from '../../src/outposts/sse.ts';
import { parseEntry, parseEvent, parsePage } from '../../src/outposts/wire.ts';
import type { QueueEntry } from '../../src/session/session.ts';
import {
  anyCuts,
  anyEntry,
  anyEvent,
  anyPage,
  anyReply,
  cutUp,
  damaged,
  replying,
} from '../support/hostile.ts';

/** A second is a millisecond, so that waits between tries cost nothing. */
const hurried: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 1_000, signal) };

function apiOver(fetch: Fetch): OutpostsApi {
  return createOutpostsApi({
    baseUrl: 'http://127.0.0.1:1',
    outpostId: 'o',
    acceptorId: 'me',
    token: () => new Secret('cog_0123456789'),
    fetch,
    clock: hurried,
    random: { next: () => 0, id: () => '0' },
    log: silentLogger,
    redactor: new Redactor(),
    observer: { request: () => undefined, skipped: () => undefined },
  });
}

const call = () => ({ timeoutMs: 600_000, signal: new AbortController().signal });

/** The result, or undefined for an error in our own words. Any other error fails the test. */
async function orRefused<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    expect(error).toBeInstanceOf(DvoError);
    expect((error as DvoError).code).toBe('api');
    return undefined;
  }
}

function isSound(entry: QueueEntry): void {
  expect(entry.sessionId.length).toBeGreaterThan(0);
  expect(entry.sessionId.length).toBeLessThanOrEqual(4_096);
  for (const time of [entry.createdAt, entry.updatedAt, entry.claimDeadline]) {
    if (time !== undefined) expect(Number.isFinite(time)).toBe(true);
  }
}

async function* from(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

async function itemsOf(chunks: readonly Uint8Array[]): Promise<readonly SseItem[]> {
  const items: SseItem[] = [];
  for await (const item of readSse(from(chunks))) items.push(item);
  return items;
}

function eventsOf(items: readonly SseItem[]): readonly string[] {
  return items.flatMap((item) => (item.kind === 'event' ? [item.data] : []));
}

describe('Q3, Q9: whatever Devin answers', () => {
  it('a list is read or refused, and every entry of it is sound', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyReply(anyPage), { minLength: 1, maxLength: 3 }), async (replies) => {
        const page = await orRefused(apiOver(replying(replies)).list({}, call()));
        for (const entry of page?.entries ?? []) isSound(entry);
      }),
      { numRuns: 300 },
    );
  });

  it('a claim is won with a token and an end, or not won', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyReply(anyEntry), { minLength: 1, maxLength: 3 }), async (replies) => {
        const result = await orRefused(apiOver(replying(replies)).claim('devin-a', call()));
        if (result?.kind !== 'claimed') return;
        isSound(result.grant.entry);
        expect(result.grant.connectToken.reveal()).not.toBe('');
        expect(Number.isFinite(result.grant.deadline)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('an entry is read, absent or refused; a release is done or refused', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyReply(anyEntry), { minLength: 1, maxLength: 3 }), async (replies) => {
        const entry = await orRefused(apiOver(replying(replies)).get('devin-a', call()));
        if (entry !== undefined) isSound(entry);
        await orRefused(apiOver(replying(replies)).release('devin-a', call()));
      }),
      { numRuns: 300 },
    );
  });

  it('a watch tells sound events, and ends or breaks off', async () => {
    const stream = fc
      .array(anyEvent)
      .map((events) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
    await fc.assert(
      fc.asyncProperty(damaged(stream), anyCuts, fc.boolean(), async (bytes, cuts, breaks) => {
        const reply = { status: 200, retryAfter: null, chunks: cutUp(bytes, cuts), breaks };
        const watching = async (): Promise<void> => {
          for await (const event of apiOver(replying([reply])).watch(undefined, call())) {
            if (event.kind === 'changed') isSound(event.entry);
            if (event.kind === 'deleted') expect(event.sessionId).not.toBe('');
          }
        };
        await orRefused(watching());
      }),
      { numRuns: 300 },
    );
  });

  it('the picture of the queue takes it all, and keeps its line in order', () => {
    const news = fc.tuple(anyEntry, fc.constantFrom('event', 'read', 'answer', 'absent', 'list'));
    fc.assert(
      fc.property(fc.array(news, { maxLength: 40 }), (all) => {
        const sightings = new Sightings({
          clock: systemClock,
          acceptorId: 'me',
          looksApartMs: 0,
          onChange: () => undefined,
          keep: (sessionId) => sessionId === 'devin-a',
        });
        for (const [raw, how] of all) {
          const entry = parseEntry(raw);
          if (how === 'list') {
            sightings.beginList();
            sightings.endList();
          } else if (entry.kind === 'ok') {
            if (how === 'absent') sightings.absent(entry.value.sessionId, 'event');
            else sightings.seen(entry.value, how);
          }
        }
        const waiting = [...sightings.line.entries()];
        expect(new Set(waiting.map((entry) => entry.sessionId)).size).toBe(waiting.length);
        expect(waiting).toHaveLength(sightings.line.size);
        const ages = waiting.flatMap((entry) => entry.createdAt ?? []);
        expect(ages).toEqual(ages.toSorted((left, right) => left - right));
        for (const { sessionId } of waiting) expect(sightings.get(sessionId).gist).toBe('available');
      }),
      { numRuns: 500 },
    );
  });

  it('near misses of the wire never throw', () => {
    fc.assert(
      fc.property(anyEntry, anyPage, anyEvent, (entry, page, event) => {
        const parsed = parseEntry(entry);
        if (parsed.kind === 'ok') isSound(parsed.value);
        parsePage(page, 100);
        parseEvent(JSON.stringify(event) ?? '');
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('W5: a stream of events', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll(/[\r\n\0]/g, ''));
  const event = fc.array(line, { minLength: 1, maxLength: 3 });
  const item = fc.oneof(event, fc.constant('comment' as const));

  it('cut off anywhere, in any pieces, gives whole events only, in their order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(item, { maxLength: 8 }),
        fc.constantFrom('\n', '\r\n'),
        anyCuts,
        fc.double({ min: 0, max: 1, noNaN: true }),
        async (items, end, cuts, stop) => {
          const text = items
            .map((one) =>
              one === 'comment'
                ? `: keepalive${end}${end}`
                : one.map((data) => `data: ${data}${end}`).join('') + end,
            )
            .join('');
          const expected = items.flatMap((one) => (one === 'comment' ? [] : [one.join('\n')]));
          const bytes = Buffer.from(text);
          const whole = await itemsOf(cutUp(bytes, cuts));
          expect(eventsOf(whole)).toEqual(expected);
          expect(whole.some(({ kind }) => kind === 'comment')).toBe(items.includes('comment'));
          const cut = eventsOf(
            await itemsOf(cutUp(bytes.subarray(0, Math.floor(stop * bytes.length)), cuts)),
          );
          expect(cut).toEqual(expected.slice(0, cut.length));
        },
      ),
    );
  });

  it('says of a flood of comments only that the stream is alive', async () => {
    const flood = Buffer.from(': keepalive\n'.repeat(5_000));
    expect(await itemsOf([flood, flood])).toEqual([{ kind: 'comment' }, { kind: 'comment' }]);
    const between = Buffer.from(`${flood.toString()}data: one\n\n${flood.toString()}`);
    expect((await itemsOf([between])).map(({ kind }) => kind)).toEqual(['comment', 'event', 'comment']);
  });

  it.each([
    ['comments between its lines', `data: ${'x'.repeat(100_000)}\n: keepalive\n`],
    ['no line end at all', 'data: '.padEnd(100_000, 'x')],
    ['a comment without an end', ': '.padEnd(100_000, 'x')],
    ['an id without an end', 'id: '.padEnd(100_000, 'x')],
  ])('is refused when an event never ends: %s', async (_, text) => {
    let sent = 0;
    const endless = async function* () {
      // Far above the limit on one event: whoever reads on here keeps it all.
      while (sent < 400) {
        sent += 1;
        yield Buffer.from(sent === 1 ? text : text.replace(/^(data: |: |id: )(?=x+$)/, ''));
      }
    };
    const reading = async (): Promise<void> => {
      for await (const one of readSse(endless())) expect(one.kind).toBe('comment');
    };
    await expect(reading()).rejects.toThrow('too large');
    expect(sent).toBeLessThan(60);
  });
});
