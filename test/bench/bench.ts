/** `npm run bench`: figures and ratios, printed. Nothing here is asserted: machines differ. */
import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startEmulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { LOOKS_APART_MS, Sightings } from '../../src/outposts/sightings.ts';
import type { QueueEntry } from '../../src/session/session.ts';
import { nodeDisk } from '../../src/state/node-disk.ts';
import { openSessionIndex } from '../../src/state/session-index.ts';
import { record } from '../session/view.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';
import { nullWorld, percentile, startMotor } from '../support/null-world.ts';

const say = (name: string, value: string, mark: string): void => {
  process.stdout.write(`${name.padEnd(58)} ${value.padStart(26)}   (mark: ${mark})\n`);
};
const ms = (value: number): string => `${value.toFixed(1)} ms`;
const sleep = (time: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, time));
const folder = (): Promise<string> => mkdtemp(join(tmpdir(), 'dvo-bench-'));

/** 500 sessions a minute for fifteen seconds. Milliseconds from enqueued to claimed. */
async function claimTimes(
  start: (url: string, outpostId: string, token: string) => Promise<() => Promise<void>>,
): Promise<readonly number[]> {
  const emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
  const stop = await start(emulator.url, emulator.outpostId, emulator.knobs.token);
  await sleep(1_000);
  const enqueuedAt = new Map<string, number>();
  const times: number[] = [];
  const claims = new Set<string>();
  emulator.store.subscribe(({ row }) => {
    if (row?.phase !== 'claimed' || claims.has(row.id)) return;
    claims.add(row.id);
    times.push(performance.now() - (enqueuedAt.get(row.id) ?? 0));
  });
  for (let at = 0; at < 125; at += 1) {
    const sessionId = `devin-${at}`;
    enqueuedAt.set(sessionId, performance.now());
    emulator.enqueue({ sessionId });
    await sleep(120);
  }
  await until(() => times.length === 125);
  await stop();
  await emulator.stop();
  return times;
}

async function claiming(): Promise<void> {
  const ours = await claimTimes(async (url, outpostId, token) => {
    const motor = await startMotor({
      url,
      outpostId,
      token,
      stateDir: await folder(),
      maxSessions: 5_000,
      world: nullWorld(),
    });
    return () => motor.stop('detach', 2_000);
  });
  const naive = await claimTimes(async (url, outpostId, token) => {
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${token}` };
    const loop = (async () => {
      while (!stop.signal.aborted) {
        const list = await fetch(
          `${url}/opbeta/outposts/devins?outpost=${outpostId}&phase=pending&first=200`,
          { headers },
        );
        const { items } = (await list.json()) as { items: { metadata: { session_id: string } }[] };
        for (const { metadata } of items) {
          const body = JSON.stringify({ acceptor_id: 'naive' });
          await (
            await fetch(`${url}/opbeta/outposts/devins/${metadata.session_id}/claim`, {
              method: 'POST',
              headers,
              body,
            })
          ).text();
        }
        await sleep(3_000);
      }
    })();
    return async () => {
      stop.abort();
      await loop;
    };
  });
  say('enqueued → claimed, p50, 500 sessions a minute', ms(percentile(ours, 0.5)), '≤ 10 ms');
  say('enqueued → claimed, p99', ms(percentile(ours, 0.99)), '≤ 50 ms');
  say('the same by polling every 3 s, p50', ms(percentile(naive, 0.5)), '–');
  say('ratio of the two p50', `${(percentile(naive, 0.5) / percentile(ours, 0.5)).toFixed(0)} ×`, '–');
}

async function serving(): Promise<void> {
  await using stage = await Stage.open({ env: { MAX_CONCURRENT_SESSIONS: '10', LOG_LEVEL: 'info' } });
  const startedAt = performance.now();
  await stage.start();
  await until(async () => (await stage.ops('/readyz')).status === 200);
  say('start → ready', ms(performance.now() - startedAt), '≤ 1 s');
  const times: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const ids = Array.from({ length: 10 }, (_, at) => `devin-${round}-${at}`);
    for (const sessionId of ids) stage.emulator.enqueue({ sessionId });
    for (const sessionId of ids) await stage.connected(sessionId);
    const launched = new Map(
      (await stage.lines('remote launched')).map((line) => [line['session'], Number(line['time'])]),
    );
    for (const id of ids)
      times.push((launched.get(id) ?? 0) - (stage.facts.session(id)?.seen.enqueuedAt ?? 0));
    for (const id of ids) stage.emulator.terminate(id);
    await stage.empty();
  }
  say('enqueued → serving, local provider, ten at once, p50', ms(percentile(times, 0.5)), '≤ 300 ms');
}

function events(): void {
  const costs = [10, 10_000].map((length) => {
    const sightings = new Sightings({
      clock: systemClock,
      acceptorId: 'me',
      looksApartMs: LOOKS_APART_MS,
      onChange: () => undefined,
      keep: () => false,
    });
    const entry = (at: number, change: number): QueueEntry => ({
      sessionId: `devin-${at}`,
      createdAt: at,
      updatedAt: change,
      kind: 'new',
      platform: 'linux',
      phase: 'pending',
      status: change % 2 === 0 ? 'pending' : 'running',
    });
    for (let at = 0; at < length; at += 1) sightings.seen(entry(at, 0), 'read');
    const rounds = 200_000;
    const startedAt = performance.now();
    for (let change = 1; change <= rounds; change += 1)
      sightings.seen(entry(change % length, change), 'event');
    return ((performance.now() - startedAt) / rounds) * 1_000;
  });
  const [few = 0, many = 0] = costs;
  say(
    'work per event: 10 → 10,000 entries',
    `${few.toFixed(2)} → ${many.toFixed(2)} µs (${(many / few).toFixed(2)} ×)`,
    '≤ 1.5 ×',
  );
}

async function held(): Promise<void> {
  const emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
  for (let at = 0; at < 1_000; at += 1) emulator.enqueue({ sessionId: `devin-${at}` });
  const child = fileURLToPath(new URL('./held.ts', import.meta.url));
  const args = [child, emulator.url, emulator.outpostId, emulator.knobs.token, '1000', '30'];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const { percent, megabytes, reattachMs } = JSON.parse(stdout) as Record<string, number>;
  say('idle with 1,000 held sessions, of a core', `${percent?.toFixed(1)} %`, '≤ 3 %');
  say('idle with 1,000 held sessions, resident', `${megabytes?.toFixed(0)} MB`, '≤ 200 MB');
  say(
    'restart: 1,000 sessions looked at again, 20 ms each',
    ms(reattachMs ?? 0),
    'no limit on concurrency: 20 ms + work',
  );
  await emulator.stop();
}

async function commits(): Promise<void> {
  const stateDir = await folder();
  const options = {
    disk: nodeDisk,
    stateDir,
    clock: systemClock,
    log: silentLogger,
    outpostId: 'o',
    acceptorId: 'a',
  };
  const { index } = await openSessionIndex(options);
  const full = record('suspended', {
    archive: { snapshotId: 's'.repeat(36), takenAt: 1, sandboxId: 'x'.repeat(36) },
  });
  for (let at = 0; at < 10_000; at += 1) index.put(`dvo-${at}`, full);
  await index.commit();
  const times: number[] = [];
  for (let round = 0; round < 100; round += 1) {
    const startedAt = performance.now();
    const burst = Array.from({ length: 20 }, (_, at) => {
      index.put(`dvo-${round * 20 + at}`, { ...full, attempt: round + 2 });
      return index.commit();
    });
    await Promise.all(burst);
    times.push(performance.now() - startedAt);
  }
  say('index commit, 10,000 records, bursts of 20, p50', ms(percentile(times, 0.5)), '–');
  say('index commit, p99', ms(percentile(times, 0.99)), '≤ 30 ms');
}

const parts = { events, commits, serving, claiming, held };
const wanted = process.argv.slice(2);
for (const [name, part] of Object.entries(parts))
  if (wanted.length === 0 || wanted.includes(name)) await part();
process.exit(0);
