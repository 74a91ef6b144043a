/**
 * `npm run soak -- --minutes M`: thousands of short sessions through a real daemon process, with faults on. At rest
 * before and after, the daemon is measured: heap after collection, resident memory, file descriptors, active resources.
 * Fails when any of them grows, when the daemon ends or reports a fatal error, or when anything of a session is left.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';
import { Weather } from './faults.ts';

const { values } = parseArgs({ options: { minutes: { type: 'string' }, users: { type: 'string' } } });
const minutes = Number(values.minutes ?? '10');
const users = Number(values.users ?? '24');
const STRIKE_EVERY_MS = 400;
const WARM_UP_SESSIONS = 60;
const MB = 1024 * 1024;
/** Noise of a collected heap between two rests. */
const HEAP_SLACK_BYTES = 2 * MB;
/** Above this a session leaves something behind; below it, rounding. */
const BYTES_PER_SESSION = 1_024;
const RSS_SLACK_BYTES = 96 * MB;
const HANDLE_SLACK = 6;
const FORGOTTEN_AFTER_MS = 60_000;

interface Sample {
  readonly heap: number;
  readonly rss: number;
  readonly descriptors: number;
  readonly sockets: number;
  readonly resources: Readonly<Record<string, number>>;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const inMb = (bytes: number): string => `${(bytes / MB).toFixed(1)} MB`;
const wrong: string[] = [];

const preload = fileURLToPath(new URL('./preload.ts', import.meta.url));
const stage = await Stage.open({
  knobs: { suspendedVisibleMs: 200, tombstoneMs: 2_000 },
  env: {
    NODE_OPTIONS: `--expose-gc --import=${preload}`,
    MAX_CONCURRENT_SESSIONS: '16',
    // The archive, the exit and its confirmation come close together in a short session.
    REMOTE_PROBE_INTERVAL_MS: '500',
    WATCH_IDLE_TIMEOUT_MS: '3000',
    RESYNC_INTERVAL_MS: '10000',
    REMOTE_RESTART_LIMIT: '20',
    LOG_LEVEL: 'info',
  },
});
const report = join(stage.stateDir, 'report.json');
const weather = new Weather(stage.emulator);
const tally = { sessions: 0, slept: 0, given: 0 };

async function sample(): Promise<Sample> {
  const before = reports();
  process.kill(stage.daemon.pid ?? 0, 'SIGUSR2');
  await until(() => reports() > before, { what: 'the daemon reports' });
  const { heap, rss, resources } = JSON.parse(readFileSync(report, 'utf8')) as Omit<
    Sample,
    'descriptors' | 'sockets'
  >;
  const links = readdirSync(`/proc/${stage.daemon.pid}/fd`);
  return { heap, rss, resources, descriptors: links.length, sockets: resources['TCPSocketWrap'] ?? 0 };
}

function reports(): number {
  try {
    return (JSON.parse(readFileSync(report, 'utf8')) as { reports: number }).reports;
  } catch {
    return 0;
  }
}

function say(when: string, at: Sample): void {
  const figures = [inMb(at.heap), inMb(at.rss), String(at.descriptors), String(at.sockets)];
  const [heap, rss, descriptors, sockets] = figures;
  console.log(
    `${when.padEnd(22)} heap ${heap}, resident ${rss}, descriptors ${descriptors}, sockets ${sockets}, ` +
      `resources ${JSON.stringify(at.resources)}`,
  );
}

async function connected(sessionId: string): Promise<boolean> {
  for (let looks = 0; looks < 1_200; looks += 1) {
    if (stage.facts.remotePid(sessionId) !== undefined) return true;
    await sleep(50);
  }
  return false;
}

async function asked(sessionId: string, command: string): Promise<string | undefined> {
  const late = sleep(5_000).then(() => undefined);
  const answer = stage.run(sessionId, command).catch(() => undefined);
  return await Promise.race([answer, late]);
}

/** One short life: served, a file, often a sleep and a wake, the file again, the end. */
async function live(sessionId: string): Promise<void> {
  const { emulator } = stage;
  emulator.enqueue({ sessionId });
  const sleeps = Math.random() < 0.4;
  const up = await connected(sessionId);
  const written = up && (await asked(sessionId, 'echo kept > file; sync file; cat file')) === 'kept\n';
  if (!up) tally.given += 1;
  if (up && sleeps) {
    emulator.sleep(sessionId);
    await sleep(400 + Math.random() * 1_500);
    emulator.wake(sessionId);
    if (await connected(sessionId)) await remembers(sessionId, written);
    tally.slept += 1;
  }
  emulator.terminate(sessionId);
  tally.sessions += 1;
}

/** A crash or a move may come between the question and the answer; a wrong answer is another thing. */
async function remembers(sessionId: string, written: boolean): Promise<void> {
  if (!written) return;
  for (let tries = 0; tries < 10; tries += 1) {
    const answer = await asked(sessionId, 'cat file');
    if (answer === 'kept\n') return;
    if (answer !== undefined && answer !== '') wrong.push(`${sessionId} has lost its file: ${answer}`);
    if (answer !== undefined && answer !== '') return;
    await connected(sessionId);
  }
}

let number = 0;
async function user(goOn: () => boolean): Promise<void> {
  while (goOn() && wrong.length === 0) {
    number += 1;
    await live(`devin-${number}`);
  }
}

/** Nothing is left to do, and nothing is left behind. */
async function rest(): Promise<void> {
  weather.clear();
  for (const { sessionId, queued } of stage.emulator.state().sessions) {
    const row = stage.emulator.store.row(sessionId);
    if (queued && row?.status !== 'terminated') stage.emulator.enqueue({ sessionId, status: 'terminated' });
  }
  for (const name of await sleepers()) stage.emulator.enqueue({ sessionId: name, status: 'terminated' });
  await until(async () => (await leaks()).length === 0, {
    withinMs: 150_000,
    what: 'everything is gone',
  }).catch(async () => wrong.push(...(await leaks()), ...(await leftOver())));
  for (const { sessionId } of stage.emulator.state().sessions) {
    const row = stage.emulator.store.row(sessionId);
    if (row !== undefined) stage.emulator.store.remove(row);
  }
  await sleep(2_000);
}

/** As a platform does: a list of thousands of ended sandboxes would be most of the work. */
async function forgetEnded(): Promise<void> {
  const folder = join(stage.stateDir, 'local', 'ended');
  for (const name of await readdir(folder)) {
    const { mtimeMs } = await stat(join(folder, name));
    if (Date.now() - mtimeMs > FORGOTTEN_AFTER_MS) await rm(join(folder, name), { force: true });
  }
}

async function index(): Promise<{
  sessions: Record<string, { sessionId: string }>;
  failures: Record<string, { coolUntil: number }>;
}> {
  return JSON.parse(await readFile(join(stage.stateDir, 'sandbox_index.json'), 'utf8')) as Awaited<
    ReturnType<typeof index>
  >;
}

async function sleepers(): Promise<readonly string[]> {
  return Object.values((await index()).sessions).map(({ sessionId }) => sessionId);
}

/** What is known of the sessions that should be gone. */
async function leftOver(): Promise<readonly string[]> {
  const told: string[] = [];
  for (const record of Object.values((await index()).sessions)) {
    const { sessionId } = record;
    told.push(JSON.stringify({ record, queue: stage.emulator.session(sessionId) }));
    const lines = (await stage.printed()).split('\n').filter((line) => line.includes(`"${sessionId}"`));
    told.push(...lines.slice(-20));
  }
  return told;
}

async function leaks(): Promise<readonly string[]> {
  const found: string[] = [];
  const count = (what: string, many: number): void => {
    if (many > 0) found.push(`${many} ${what} left`);
  };
  const { sessions, failures } = await index();
  count('records', Object.keys(sessions).length);
  count('memories of failures', Object.keys(failures).length);
  count('sandboxes', (await stage.facts.sandboxes()).length);
  count('files of archives', (await readdir(join(stage.stateDir, 'local', 'snapshots'))).length);
  count('half-made sandboxes', (await readdir(join(stage.stateDir, 'local', 'making'))).length);
  count('processes', await stage.facts.processes());
  count(
    'temporary files',
    (await readdir(stage.stateDir)).filter((name) => name.endsWith('.dvo-tmp')).length,
  );
  const claimed = stage.emulator
    .state()
    .sessions.filter(({ queued, phase }) => queued && phase === 'claimed');
  count('claims', claimed.length);
  return found;
}

function compare(before: Sample, after: Sample, sessions: number): void {
  const perSession = (after.heap - before.heap) / Math.max(1, sessions);
  console.log(`heap per session: ${perSession.toFixed(0)} bytes`);
  if (after.heap > before.heap + HEAP_SLACK_BYTES && perSession > BYTES_PER_SESSION)
    wrong.push('the heap has grown');
  if (after.rss > before.rss + RSS_SLACK_BYTES) wrong.push('resident memory has grown');
  if (after.descriptors > before.descriptors + HANDLE_SLACK) wrong.push('file descriptors have grown');
  const handles = (at: Sample): number => Object.values(at.resources).reduce((sum, one) => sum + one, 0);
  if (handles(after) > handles(before) + HANDLE_SLACK) wrong.push('active resources have grown');
}

/**
 * A session may end between the queue's word and the claim; then the claim's own answer says so, and it is given back.
 * Again and again for one session would be the flapping that must not be, and two remotes must never be.
 */
function judge(violations: readonly string[]): void {
  const late = violations.filter((one) => / claimed .*, which is (suspended|terminated)$/.test(one));
  const often = late.filter((one, at) => late.slice(0, at).filter((other) => other === one).length >= 2);
  console.log(`claims that came just after their session had ended: ${late.length}`);
  wrong.push(...violations.filter((one) => !late.includes(one)), ...often);
}

async function main(): Promise<number> {
  await stage.start({ SOAK_REPORT: report });
  let ended = false;
  const started = stage.daemon.exited().then((code) => {
    if (!ended) wrong.push(`the daemon has ended: ${code}`);
  });
  await Promise.all(Array.from({ length: users }, () => user(() => number < WARM_UP_SESSIONS)));
  await rest();
  const before = await sample();
  say(`start, ${tally.sessions} sessions`, before);
  const sessionsBefore = tally.sessions;
  const endsAt = performance.now() + minutes * 60_000;
  const goOn = (): boolean => performance.now() < endsAt && wrong.length === 0;
  const striking = (async () => {
    while (goOn()) {
      weather.strike();
      await sleep(STRIKE_EVERY_MS);
      if (Math.random() < 0.2) weather.clear();
    }
  })();
  const watching = (async () => {
    while (goOn()) {
      await forgetEnded();
      await sleep(Math.min(30_000, minutes * 12_000));
      if (goOn()) say(`${tally.sessions} sessions`, await sample());
    }
  })();
  await Promise.all([...Array.from({ length: users }, () => user(goOn)), striking, watching]);
  await rest();
  const after = await sample();
  say(`end, ${tally.sessions} sessions`, after);
  compare(before, after, tally.sessions - sessionsBefore);
  for (const message of ['fatal error', 'pass failed', 'cannot start']) {
    const lines = await stage.lines(message);
    if (lines.length > 0) wrong.push(`"${message}" ${lines.length} times: ${JSON.stringify(lines[0])}`);
  }
  judge(stage.emulator.state().violations);
  console.log(
    `${tally.sessions} sessions, ${tally.slept} of them slept and woke, ${tally.given} found no machine in a minute`,
  );
  console.log(`faults: ${JSON.stringify(weather.counts)}`);
  console.log(`unhandled rejections: ${(await stage.lines('fatal error')).length}`);
  ended = true;
  await stage[Symbol.asyncDispose]();
  await started;
  for (const one of wrong) console.log(`WRONG ${one}`);
  console.log(wrong.length === 0 ? 'nothing has grown, nothing is left' : `${wrong.length} things are wrong`);
  return wrong.length === 0 ? 0 : 1;
}

process.exit(
  await main().catch(async (error: unknown) => {
    console.log(error, (await stage.printed()).split('\n').slice(-30).join('\n'));
    await stage[Symbol.asyncDispose]();
    return 1;
  }),
);
