/**
 * `npm run fuzz -- --minutes M [--seed N]`: the wire and the stream against whatever there is. Every answer must end in
 * a result or in an error of our own; nothing may crash; memory must come back.
 */
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { systemClock, type Clock } from '../../src/lib/clock.ts';
import { DvoError } from '../../src/lib/errors.ts';
import type { Fetch } from '../../src/lib/fetch.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import { createOutpostsApi } from '../../src/outposts/api.ts';
import { createHttp } from '../../src/outposts/http.ts';
import type { OutpostsApi } from '../../src/outposts/outposts.ts';
import { QueueInformer } from '../../src/outposts/queue.ts';
import { LOOKS_APART_MS } from '../../src/outposts/sightings.ts';
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
import { HostileServer } from './hostile-server.ts';
import { until } from '../support/until.ts';

const { values } = parseArgs({ options: { minutes: { type: 'string' }, seed: { type: 'string' } } });
const minutes = Number(values.minutes ?? '1');
const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 30));
const MB = 1024 * 1024;
/** What may be left above the level after the first ten seconds: compiled code and the like. */
const GROWTH_LIMIT_BYTES = 16 * MB;

const faults: string[] = [];
process.on('unhandledRejection', (error) => faults.push(`unhandled rejection: ${String(error)}`));
process.on('uncaughtException', (error) => faults.push(`uncaught exception: ${String(error)}`));

/** Waits are a hundredth as long. */
const hurried: Clock = { ...systemClock, sleep: (ms, signal) => systemClock.sleep(ms / 100, signal) };
const call = (timeoutMs: number) => ({ timeoutMs, signal: new AbortController().signal });
const counts = { list: 0, claim: 0, get: 0, release: 0, watch: 0, refused: 0 };

function apiOver(fetch: Fetch, baseUrl = 'http://127.0.0.1:1'): OutpostsApi {
  return createOutpostsApi({
    baseUrl,
    outpostId: 'o',
    acceptorId: 'me',
    token: () => new Secret('cog_0123456789'),
    fetch,
    clock: hurried,
    random: { next: Math.random, id: () => '0' },
    log: silentLogger,
    redactor: new Redactor(),
    observer: { request: () => undefined, skipped: () => undefined },
  });
}

async function tried(
  kind: Exclude<keyof typeof counts, 'refused'>,
  seed: number,
  work: Promise<unknown>,
): Promise<void> {
  counts[kind] += 1;
  try {
    await work;
  } catch (error) {
    counts.refused += 1;
    if (!(error instanceof DvoError)) faults.push(`${kind}, seed ${seed}: ${String(error)}`);
  }
}

async function readAll(api: OutpostsApi): Promise<void> {
  for await (const event of api.watch(undefined, call(60_000))) void event;
}

/** Fifty cases of each kind. */
async function round(seed: number): Promise<void> {
  const many = { seed, numRuns: 50 };
  const stream = fc
    .array(anyEvent)
    .map((all) => all.map((one) => `data: ${JSON.stringify(one)}\n\n`).join(''));
  const lists = fc.sample(fc.array(anyReply(anyPage), { minLength: 1, maxLength: 3 }), many);
  const entries = fc.sample(fc.array(anyReply(anyEntry), { minLength: 1, maxLength: 3 }), many);
  const streams = fc.sample(fc.tuple(damaged(stream), anyCuts, fc.boolean()), many);
  await Promise.all([
    ...lists.map((replies) => tried('list', seed, apiOver(replying(replies)).list({}, call(60_000)))),
    ...entries.flatMap((replies) => [
      tried('claim', seed, apiOver(replying(replies)).claim('devin-a', call(60_000))),
      tried('get', seed, apiOver(replying(replies)).get('devin-a', call(60_000))),
      tried('release', seed, apiOver(replying(replies)).release('devin-a', call(60_000))),
    ]),
    ...streams.map(([bytes, cuts, breaks]) => {
      const reply = { status: 200, retryAfter: null, chunks: cutUp(bytes, cuts), breaks };
      return tried('watch', seed, readAll(apiOver(replying([reply]))));
    }),
  ]);
}

function memory(): { readonly heap: number; readonly rss: number } {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss };
}

const inMb = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;

/** Answers the exit code. */
async function main(): Promise<number> {
  const server = new HostileServer(firstSeed);
  const url = await server.listen();
  const http = createHttp({ bodyTimeoutMs: 1_000 });
  const stop = new AbortController();
  const informer = new QueueInformer({
    api: apiOver(http.fetch, url),
    clock: hurried,
    random: { next: Math.random, id: () => '0' },
    log: silentLogger,
    looksApartMs: LOOKS_APART_MS,
    acceptorId: 'me',
    cursor: { load: async () => undefined, save: async () => undefined },
    settings: { pollIntervalMs: 2_000, resyncIntervalMs: 5_000, watchIdleTimeoutMs: 20_000, callMs: 20_000 },
    onReconnect: () => undefined,
    beat: () => undefined,
    onChange: () => undefined,
    keep: () => false,
    onSynced: () => undefined,
  });
  const running = informer.run(stop.signal);

  console.log(`seed ${firstSeed}, ${minutes} minutes`);
  const startedAt = performance.now();
  const elapsed = (): number => performance.now() - startedAt;
  let base: ReturnType<typeof memory> | undefined;
  let most = 0;
  let seed = firstSeed;
  for (; elapsed() < minutes * 60_000 && faults.length === 0; seed += 1) {
    await round(seed);
    most = Math.max(most, process.memoryUsage().rss);
    if (base === undefined && elapsed() > 10_000) {
      base = memory();
      console.log(`after 10 s: heap ${inMb(base.heap)}, resident ${inMb(base.rss)}`);
    }
  }
  server.honest = JSON.stringify({
    items: [{ session_id: 'devin-real', phase: 'pending', session_status: 'pending' }],
  });
  await until(() => informer.sighting('devin-real').gist === 'available', {
    what: 'the informer sees a real queue again',
  });
  stop.abort();
  await running;
  await http.close();
  await server.close();
  const end = memory();
  const { refused, ...cases } = counts;
  const total = Object.values(cases).reduce((sum, one) => sum + one, 0);
  console.log(`${total} cases in ${seed - firstSeed} rounds (${JSON.stringify(cases)}), ${refused} refused`);
  console.log(
    `${server.requests} requests over sockets, ${inMb(server.sent)} sent; the informer found the real queue at the end`,
  );
  console.log(`at the end: heap ${inMb(end.heap)}, resident ${inMb(end.rss)} (at most ${inMb(most)})`);
  const grown = base === undefined ? 0 : end.heap - base.heap;
  if (grown > GROWTH_LIMIT_BYTES) faults.push(`the heap has grown by ${inMb(grown)}`);
  for (const fault of faults) console.log(`FAULT ${fault}`);
  console.log(faults.length === 0 ? 'no fault' : `${faults.length} faults`);
  return faults.length === 0 ? 0 : 1;
}

process.exit(
  await main().catch((error: unknown) => {
    console.log(error);
    return 1;
  }),
);
