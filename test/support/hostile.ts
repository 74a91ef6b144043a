/** What a broken, foreign or hostile server may say: near misses of the wire, and bytes that are no near miss. */
import fc from 'fast-check';
import type { Fetch } from '../../src/lib/fetch.ts';

const oddText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('', ' ', '__proto__', 'constructor', '..', '\0', '\ud800', '雪', '-1', '1e999', 'null'),
);
const oddTime = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(0, -1, 1e308, 1_800_000_000, 1_800_000_000_000, '2027-01-01T00:00:00Z', '9'.repeat(400)),
);
const odd = fc.oneof({ weight: 4, arbitrary: fc.jsonValue() }, oddText, oddTime, fc.constant(null));
const either = <T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: right }, { weight: 1, arbitrary: odd });
const some = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<unknown> =>
  either(fc.record(fields, { requiredKeys: [] }));

const id = either(fc.oneof(fc.constantFrom('devin-a', 'devin-b', 'devin-c'), oddText));
const policy = some({
  enabled: either(fc.boolean()),
  allow: either(fc.array(some({ hostname: either(oddText) }))),
});

/** An entry as it should be, but for what is odd about it. */
export const anyEntry = some({
  session_id: id,
  sessionId: id,
  metadata: some({ session_id: id, created_at: either(oddTime), updated_at: either(oddTime) }),
  spec: some({
    kind: either(fc.constantFrom('new', 'resume')),
    platform: either(fc.constantFrom('linux', 'windows')),
    remote_binary_sha: either(fc.constantFrom('abcdef0', null)),
    network_policy: policy,
  }),
  status: some({
    phase: either(fc.constantFrom('pending', 'claimed')),
    acceptor_id: either(fc.constantFrom('me', 'other', null)),
    claim_deadline: either(oddTime),
    session_status: either(fc.constantFrom('pending', 'running', 'suspended', 'terminated', 'exit')),
    connect_token: either(oddText),
    gateway_url: either(oddText),
  }),
});

export const anyPage = some({
  items: either(fc.array(anyEntry)),
  cursor: either(oddText),
  has_next_page: either(fc.boolean()),
});

export const anyEvent = some({
  type: either(fc.constantFrom('ADDED', 'MODIFIED', 'DELETED')),
  object: anyEntry,
  cursor: either(oddText),
});

/** The text with some of its bytes changed, left out or doubled. */
export function damaged(text: fc.Arbitrary<string>): fc.Arbitrary<Uint8Array> {
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    cut: fc.integer({ min: 0, max: 8 }),
    put: fc.uint8Array({ maxLength: 4 }),
  });
  return fc.tuple(text, fc.array(change, { maxLength: 3 })).map(([whole, changes]) => {
    let bytes: Uint8Array = Buffer.from(whole);
    for (const { at, cut, put } of changes) {
      const from = Math.floor(at * bytes.length);
      bytes = Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(from + cut)]);
    }
    return bytes;
  });
}

/** The bytes cut into chunks anywhere, empty ones included. */
export function cutUp(bytes: Uint8Array, cuts: readonly number[]): readonly Uint8Array[] {
  const places = cuts.map((cut) => Math.floor(cut * bytes.length)).toSorted((left, right) => left - right);
  return [0, ...places].map((from, at) => bytes.subarray(from, places[at] ?? bytes.length));
}
export const anyCuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });

export interface Reply {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly chunks: readonly Uint8Array[];
  /** The connection breaks after the chunks. */
  readonly breaks: boolean;
}

/** Any answer to a request, with a body that is one of `bodies`, or damaged, or anything. */
export function anyReply(bodies: fc.Arbitrary<unknown>): fc.Arbitrary<Reply> {
  const text = bodies.map((body) => JSON.stringify(body) ?? '');
  const body = fc.oneof(
    text.map((one) => new Uint8Array(Buffer.from(one))),
    damaged(text),
    fc.uint8Array(),
  );
  return fc.record({
    status: fc.oneof(
      { weight: 4, arbitrary: fc.constant(200) },
      fc.constantFrom(204, 302, 400, 401, 403, 404, 409, 410, 429, 500, 503),
    ),
    retryAfter: fc.oneof(fc.constant(null), fc.constantFrom('1', '999999999', 'soon', '-5'), oddText),
    chunks: fc.tuple(body, anyCuts).map(([bytes, cuts]) => cutUp(bytes, cuts)),
    breaks: fc.oneof({ weight: 4, arbitrary: fc.constant(false) }, fc.constant(true)),
  });
}

/** A fetch that answers with these replies in turn, and the last one for ever. */
export function replying(replies: readonly Reply[]): Fetch {
  let asked = 0;
  return async () => {
    const reply = replies[Math.min(asked, replies.length - 1)];
    asked += 1;
    if (reply === undefined) throw new TypeError('nobody there');
    return {
      status: reply.status,
      headers: { get: (name) => (name === 'retry-after' ? reply.retryAfter : null) },
      body: (async function* () {
        yield* reply.chunks;
        if (reply.breaks) throw new TypeError('terminated');
      })(),
    };
  };
}
