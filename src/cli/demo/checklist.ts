/** The validation checklist, in the order in which a session lives through it. */
import type { DemoParts } from './demo.ts';
import { until } from './daemon-process.ts';

const LIMIT = 2;
const [ANNA, BEN, CARLA] = ['devin-anna', 'devin-ben', 'devin-carla'] as const;

/** How many of the checks failed. */
export async function playChecklist(parts: DemoParts): Promise<number> {
  const { emulator, daemon, facts, screen } = parts;
  let failures = 0;
  const check = async (text: string, condition: () => boolean | Promise<boolean>): Promise<void> => {
    const passed = await until(condition, facts.platform.patienceMs);
    screen.tick(passed, text);
    if (!passed) failures += 1;
  };
  daemon.start();
  for (const sessionId of [ANNA, BEN, CARLA]) emulator.enqueue({ sessionId });
  await serveThree(parts, check);
  await sleepAndWake(parts, check);
  await loseRemote(parts, check);
  await loseDaemon(parts, check);
  await endAll(parts, check);
  await check(
    'nothing happened that must not: no second remote, no dead session claimed',
    () => emulator.state().violations.length === 0,
  );
  await check(
    'the daemon stops on SIGTERM with exit code 0',
    async () => (await daemon.end('SIGTERM')) === 0,
  );
  return failures;
}

type Check = (text: string, condition: () => boolean | Promise<boolean>) => Promise<void>;

async function serveThree({ emulator, facts, screen, most }: DemoParts, check: Check): Promise<void> {
  screen.say(`Three sessions are queued; MAX_CONCURRENT_SESSIONS=${LIMIT}.`);
  await check('two are claimed, get a sandbox each, and their remotes connect', () =>
    [ANNA, BEN].every((id) => facts.remotePid(id) !== undefined),
  );
  await check(
    'each has exactly one sandbox under its own name',
    async () => (await facts.sandboxes(ANNA)).length === 1 && (await facts.sandboxes(BEN)).length === 1,
  );
  await check('the third waits, unclaimed', () => facts.session(CARLA)?.phase === 'pending');
  await emulator.message(ANNA, 'mkdir -p notes && echo "written by Anna" > notes/anna.txt');
  await emulator.message(BEN, 'echo "written by Ben" > ben.txt');
  await check('a prompt runs in the sandbox and writes a file', async () => {
    const { output } = await emulator.message(ANNA, 'cat notes/anna.txt');
    return output === 'written by Anna\n';
  });
  await check(`never more than ${LIMIT} sandboxes`, () => most() <= LIMIT);
}

async function sleepAndWake({ emulator, facts, screen, most }: DemoParts, check: Check): Promise<void> {
  screen.say('Anna’s session goes to sleep.');
  emulator.sleep(ANNA);
  await check(
    'its workspace is archived, its sandbox is gone, its claim released',
    async () =>
      (await facts.archives()).length === 1 &&
      (await facts.sandboxes(ANNA)).length === 0 &&
      (await facts.stage(ANNA)) === 'suspended' &&
      facts.session(ANNA)?.queued === false,
  );
  await check('the waiting third session takes the free slot', () => facts.remotePid(CARLA) !== undefined);
  emulator.terminate(CARLA);
  await check(
    'a terminated session leaves nothing',
    async () => (await facts.sandboxes(CARLA)).length === 0 && (await facts.stage(CARLA)) === undefined,
  );
  screen.say('Anna comes back.');
  emulator.wake(ANNA);
  await check('the session is resumed in a new sandbox', () => facts.remotePid(ANNA) !== undefined);
  await check('the file is still there', async () => {
    const { output } = await emulator.message(ANNA, 'cat notes/anna.txt');
    return output === 'written by Anna\n';
  });
  await check(`never more than ${LIMIT} sandboxes`, () => most() <= LIMIT);
}

async function loseRemote({ emulator, facts, screen }: DemoParts, check: Check): Promise<void> {
  const before = facts.remotePid(BEN);
  screen.say(`Ben’s remote (process ${before}) is killed.`);
  if (before !== undefined) await facts.killRemote(BEN, before);
  await check('it comes back with a fresh token, in the same sandbox', async () => {
    const now = facts.remotePid(BEN);
    return now !== undefined && now !== before && (await facts.sandboxes(BEN)).length === 1;
  });
  await check('and the session goes on where it was', async () => {
    const { output } = await emulator.message(BEN, 'cat ben.txt');
    return output === 'written by Ben\n';
  });
}

async function loseDaemon({ emulator, daemon, facts, screen }: DemoParts, check: Check): Promise<void> {
  const pids = [ANNA, BEN].map((id) => facts.remotePid(id));
  screen.say(`The daemon (process ${daemon.pid}) is killed with SIGKILL, and started again.`);
  await daemon.end('SIGKILL');
  await check(
    'the remotes do not notice',
    async () => (await emulator.message(ANNA, 'echo here')).output === 'here\n',
  );
  const claims = facts.session(ANNA)?.seen.claims ?? 0;
  daemon.start();
  // A claim near its end is renewed only by a daemon that has taken the session up again.
  for (const id of [ANNA, BEN]) shorten(emulator, id);
  await check('the new daemon renews the claims', () => (facts.session(ANNA)?.seen.claims ?? 0) > claims);
  await check('it has reattached to the same remotes (same processes)', async () => {
    const now = [ANNA, BEN].map((id) => facts.remotePid(id));
    return now.join() === pids.join() && (await facts.sandboxes()).length === 2;
  });
}

/** Lets the claim run out in twenty seconds, as if four and a half minutes had passed. */
function shorten(emulator: DemoParts['emulator'], sessionId: string): void {
  const session = emulator.store.row(sessionId);
  if (session?.claimDeadline === undefined) return;
  session.claimDeadline -= emulator.knobs.claimLifeMs - 20_000;
  emulator.store.changed(session);
}

async function endAll({ emulator, facts, screen }: DemoParts, check: Check): Promise<void> {
  screen.say('Both sessions are terminated.');
  emulator.terminate(ANNA);
  emulator.terminate(BEN);
  await check(
    'no sandbox, no archive, no process and no record is left',
    async () =>
      (await facts.sandboxes()).length === 0 &&
      (await facts.archives()).length === 0 &&
      (await facts.processes()) === 0 &&
      (await facts.records()) === 0,
  );
}
