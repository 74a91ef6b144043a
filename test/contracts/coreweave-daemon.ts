/**
 * The daemon on CoreWeave sandboxes: the failures of the field that a provider has a part in, by their ids. Everything is
 * real but the platform: queue and remotes over sockets, STATE_DIR on disk.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { createLogger } from '../../src/lib/log.ts';
import { Redactor } from '../../src/lib/secret.ts';
import { startDaemon, type Daemon } from '../../src/orchestrator/daemon.ts';
import { createCoreweaveProvider } from '../../src/sandboxes/coreweave/provider.ts';
import { outpostTag, sandboxName } from '../../src/sandboxes/names.ts';
import type { Rules } from '../../src/session/rules.ts';
import { recorded, type CoreweaveWorld, type SentCall } from '../support/coreweave-world.ts';
import { SETTINGS } from '../support/coreweave-provider.ts';
import { until } from '../support/until.ts';

const KEY = 'secret-coreweave-key';
const A = 'devin-anna';

interface DaemonOptions {
  readonly stateDir?: string;
  readonly acceptor?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Seconds that a sandbox lives. */
  readonly lifetimeSeconds?: number;
  readonly rules?: Partial<Rules>;
}

export function describeCoreweaveDaemon(name: string, open: () => Promise<CoreweaveWorld>): void {
  describe(`the daemon on CoreWeave: ${name}`, () => {
    let world: CoreweaveWorld;
    let emulator: Emulator;
    let stateDir: string;
    let log: string[];
    let sent: SentCall[];
    const daemons = new Set<Daemon>();

    beforeEach(async () => {
      world = await open();
      emulator = await startEmulator({
        clock: systemClock,
        random: systemRandom,
        node: process.execPath,
        outpostId: `outpost_env-${systemRandom.id().slice(0, 8)}`,
        knobs: { suspendedVisibleMs: 300, tombstoneMs: 1_000 },
      });
      stateDir = await mkdtemp(join(tmpdir(), 'dvo-cw-'));
      log = [];
      sent = [];
    });

    afterEach(async ({ task }) => {
      if (task.result?.state === 'fail') console.error(log.join(''));
      for (const daemon of daemons) await daemon.stop('detach');
      daemons.clear();
      await emulator.stop();
      await world.close();
      await rm(stateDir, { recursive: true, force: true, maxRetries: 5 });
    });

    async function start(options: DaemonOptions = {}): Promise<Daemon> {
      const redactor = new Redactor();
      const config = loadConfig({
        env: {
          DEVIN_API_URL: emulator.url,
          OUTPOST_ID: emulator.outpostId,
          DEVIN_OUTPOSTS_TOKEN: emulator.knobs.token,
          DEVIN_WORKER_STATIC_BASE_URL: emulator.staticUrl,
          STATE_DIR: options.stateDir ?? join(stateDir, 'state'),
          ACCEPTOR_ID: options.acceptor ?? 'dvo-one',
          CWSANDBOX_API_KEY: KEY,
          REMOTE_PROBE_INTERVAL_MS: '300',
          POLL_INTERVAL_MS: '500',
          OPS_PORT: '0',
          ...options.env,
        },
        files: { read: () => '' },
        redactor,
        terminal: false,
        onSecretTrouble: () => undefined,
      });
      const settings = { ...SETTINGS, maxLifetimeSeconds: options.lifetimeSeconds ?? 3_600 };
      const daemon = await startDaemon({
        config,
        clock: systemClock,
        random: systemRandom,
        redactor,
        path: process.env['PATH'] ?? '',
        log: createLogger({
          level: 'debug',
          format: 'json',
          redactor,
          write: (line) => log.push(`${config.acceptorId} ${line}`),
        }),
        openProvider: (parts) =>
          createCoreweaveProvider({
            ...parts,
            settings,
            connect: async () => recorded(await world.connect(), sent),
          }),
        tuning: {
          limits: { createMs: 6_000, platformMs: 6_000, probeMs: 6_000, snapshotMs: 4_000 },
          rules: { bootTimeoutMs: 60_000, yieldGraceMs: 20_000, ...options.rules },
        },
      });
      daemons.add(daemon);
      return daemon;
    }

    async function stop(daemon: Daemon): Promise<void> {
      daemons.delete(daemon);
      await daemon.stop('detach');
    }

    const said = (message: string): number =>
      log.filter((line) => line.includes(`"msg":${JSON.stringify(message)}`)).length;
    const nameOf = (sessionId: string): string => sandboxName(emulator.outpostId, sessionId);
    const tag = (): string => outpostTag(emulator.outpostId);
    const run = async (command: string): Promise<string> => (await emulator.message(A, command)).output;
    const pid = (): number | undefined => emulator.session(A)?.remote?.pid;
    const connected = async (withinMs = 40_000): Promise<number> =>
      await until(pid, { withinMs, what: 'the remote is connected' });
    const alive = async (): Promise<readonly string[]> => await world.alive(tag());
    const onlyOne = async (): Promise<string> =>
      await until(
        async () => {
          const [id, ...others] = await alive();
          return others.length === 0 ? id : undefined;
        },
        { what: 'there is one sandbox' },
      );
    async function stage(of = A, folder = join(stateDir, 'state')): Promise<string | undefined> {
      const text = await readFile(join(folder, 'sandbox_index.json'), 'utf8').catch(() => '{"sessions":{}}');
      return JSON.parse(text).sessions[nameOf(of)]?.stage;
    }
    const asleep = async (): Promise<void> => {
      await until(async () => (await stage()) === 'suspended' && (await alive()).length === 0, {
        what: 'the session is asleep',
      });
    };
    async function serve(): Promise<void> {
      emulator.enqueue({ sessionId: A });
      await connected();
      await run('echo kept > file');
    }
    /** In the end: one sandbox while it lives, nothing afterwards, and no create without a look before it. */
    async function endsClean(): Promise<void> {
      await onlyOne();
      expect(emulator.state().violations).toEqual([]);
      emulator.terminate(A);
      await until(
        async () =>
          (await alive()).length === 0 &&
          (await world.archiveIds()).length === 0 &&
          (await stage()) === undefined,
        { what: 'nothing is left' },
      );
      expectLooksBeforeCreates(sent, nameOf(A));
    }

    it.each(['UNAVAILABLE', 'DEADLINE_EXCEEDED', 'never'] as const)(
      'P1, P2: a create that is answered %s leaves one sandbox',
      async (how) => {
        await world.lists({ lagMs: 5_000 });
        await start();
        await until(() => said('admission resumed') > 0);
        await world.nextCreateAnswers(how);
        await serve();
        expect(creates(sent, nameOf(A))).toHaveLength(1);
        await endsClean();
      },
    );

    it('P1, P4: a sandbox that does not boot is destroyed, and another one is made', async () => {
      await start({ rules: { bootTimeoutMs: 6_000 } });
      await world.nextBootHangs();
      await serve();
      expect(said('sandbox discarded')).toBeGreaterThan(0);
      await endsClean();
    });

    it('P2, D1, R6: a daemon that comes back with its index reattaches to the same process', async () => {
      const first = await start();
      await serve();
      const before = await connected();
      await stop(first);
      await start();
      await until(() => said('probe failed') === 0 && said('started') === 2);
      expect(await run('cat file')).toBe('kept\n');
      expect(pid()).toBe(before);
      expect(creates(sent, nameOf(A))).toHaveLength(1);
      await endsClean();
    });

    it('P3, R2: a session whose remote keeps dying is set aside, and another one is served meanwhile', async () => {
      await start({
        env: { REMOTE_RESTART_LIMIT: '1' },
        rules: { relaunchFirstMs: 50, relaunchMaxMs: 100 },
      });
      await serve();
      for (let launches = 1; launches <= 2; launches += 1) {
        await until(() => said('remote launched') === launches);
        await connected();
        emulator.crashRemote(A, 7);
        await until(() => pid() === undefined);
      }
      await until(() => said('session given up for now') === 1);
      emulator.enqueue({ sessionId: 'devin-ben' });
      await until(() => emulator.session('devin-ben')?.remote !== undefined);
      expect(await world.alive(nameOf(A))).toEqual([]);
      expect(emulator.session(A)?.phase).toBe('pending');
      emulator.terminate('devin-ben');
      emulator.terminate(A);
      await until(async () => (await alive()).length === 0 && (await world.archiveIds()).length === 0);
    });

    it('P5, Q9: while the credential is refused nothing is destroyed, and it goes on by itself', async () => {
      await start();
      await serve();
      const [id] = await alive();
      const before = await connected();
      await world.credential('refused');
      await until(() => said('admission paused') > 0);
      emulator.enqueue({ sessionId: 'devin-ben' });
      await until(() => log.filter((line) => line.includes('probe failed')).length > 3);
      expect(await run('cat file')).toBe('kept\n');
      await world.credential('accepted');
      await until(() => emulator.session('devin-ben')?.remote !== undefined);
      expect(pid()).toBe(before);
      expect(await alive()).toContain(id);
      emulator.terminate('devin-ben');
      await endsClean();
    });

    it('S1, L1, L2: suspended means archived and gone; a wake finds its files', async () => {
      await start();
      await serve();
      emulator.sleep(A);
      await asleep();
      expect(await world.archiveIds()).toHaveLength(1);
      emulator.wake(A);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      await endsClean();
    });

    it('S2, S3: an archive that fails keeps the sandbox, and is made again', async () => {
      await start();
      await serve();
      const [id] = await alive();
      await world.nextArchiveFails();
      emulator.sleep(A);
      await until(() => said('archive failed: the sandbox is kept') === 1);
      expect(await alive()).toEqual([id]);
      await asleep();
      emulator.wake(A);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      await endsClean();
    });

    it('S2: an archive that is ready only after the limit is found, not made twice', async () => {
      await start();
      await serve();
      await world.archives({ takeMs: 7_000 });
      emulator.sleep(A);
      await asleep();
      expect(said('archive not answered in time; looking for it')).toBe(1);
      expect(sent.filter(({ method }) => method === 'sandbox.snapshot')).toHaveLength(1);
      emulator.wake(A);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      await endsClean();
    });

    it('S4: a session whose archive is lost starts empty in the end, and the log says so', async () => {
      await start();
      await serve();
      emulator.sleep(A);
      await asleep();
      const [archive = ''] = await world.archiveIds();
      await world.deleteArchive(archive);
      emulator.wake(A);
      // Each try waits until a sandbox of the one before would have shown.
      await connected(100_000);
      expect(await run('ls file 2>/dev/null || echo empty')).toBe('empty\n');
      expect(said('archive cannot be restored: the session starts with an empty workspace')).toBe(1);
      await endsClean();
    });

    it('L7: an account without archives keeps its sandboxes, says so, and goes on in them', async () => {
      const daemon = await start();
      await world.noArchives();
      await serve();
      const [id] = await alive();
      emulator.sleep(A);
      await until(async () => (await stage()) === 'suspended');
      expect(await alive()).toEqual([id]);
      const ready = await fetch(`${daemon.opsUrl}/readyz`);
      expect(ready.status).toBe(200);
      expect(await ready.text()).toContain('degraded: no archives');
      emulator.wake(A);
      await until(() => said('remote launched') === 2);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      expect(await alive()).toEqual([id]);
      await endsClean();
    });

    it('S8: a served session is archived again and again, and one archive is kept', async () => {
      await start({ rules: { checkpointEveryMs: 1_500 } });
      await serve();
      await until(() => said('archive ready') >= 3);
      await until(async () => (await world.archiveIds()).length === 1);
      expect(await run('cat file')).toBe('kept\n');
      const [id = ''] = await alive();
      await world.kill(id);
      await until(() => said('remote launched') === 2);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      await endsClean();
    });

    it('S6, Q7: a network policy becomes egress rules with what the remote needs, or is left to others', async () => {
      await start();
      emulator.enqueue({
        sessionId: 'devin-address',
        networkPolicy: { enabled: true, allow: [{ ipv4: '10.0.0.0/8' }] },
      });
      emulator.enqueue({
        sessionId: A,
        networkPolicy: { enabled: true, allow: [{ hostname: '*.example.com' }] },
      });
      if (world.egressRules) {
        await connected();
        const [create] = creates(sent, nameOf(A));
        expect(create?.text).toContain('{"dnsName":"*.example.com"}');
        expect(create?.text).toContain('{"dnsName":"127.0.0.1"}');
        await endsClean();
      } else await until(() => said('session not claimed') === 2);
      expect(emulator.session('devin-address')?.phase).toBe('pending');
      expect(log.join('')).toMatch(/"session":"devin-address","why":"network-policy"/);
      expect(creates(sent, nameOf('devin-address'))).toEqual([]);
    });

    it('S5: a session that wakes while it is being suspended is served in another sandbox', async () => {
      await start();
      await serve();
      const [id] = await alive();
      await world.archives({ takeMs: 1_500 });
      emulator.sleep(A);
      await until(async () => (await stage()) === 'suspending');
      await until(() => emulator.session(A)?.queued === false);
      emulator.wake(A);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      expect(await onlyOne()).not.toBe(id);
      await endsClean();
    });

    it('S6, S7: a session is moved before its sandbox’s hard end, and keeps claim and files', async () => {
      await start({
        lifetimeSeconds: 120,
        env: { LIFETIME_MARGIN_SECONDS: '105', SANDBOX_MAX_LIFETIME_SECONDS: '3600' },
      });
      await serve();
      const [id] = await alive();
      await until(async () => said('remote launched') >= 2 && !(await alive()).includes(id ?? ''));
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      expect(emulator.session(A)?.phase).toBe('claimed');
      await endsClean();
    });

    it.each(['kill', 'expire'] as const)(
      'S6, S8: after %s it goes on from the newest archive, and the log says how old that is',
      async (how) => {
        await start();
        await serve();
        emulator.sleep(A);
        await asleep();
        emulator.wake(A);
        await connected();
        await run('echo lost > newer');
        const [id = ''] = await alive();
        await world[how](id);
        await until(() => said('remote launched') === 3);
        await connected();
        expect(await run('cat file; ls newer 2>/dev/null || echo gone')).toBe('kept\ngone\n');
        expect(log.join('')).toMatch(/"archiveAgeMs":\d+.*"msg":"sandbox lost"/);
        await endsClean();
      },
    );

    it('R3, R4: a container that restarts in place gets its remote again, once', async () => {
      await start();
      await serve();
      const [id = ''] = await alive();
      await world.restartContainer(id);
      await until(() => said('remote launched') === 2);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      expect(await alive()).toEqual([id]);
      await endsClean();
    });

    it('R5, R7: a sandbox that cannot download gets the verified binary from the daemon', async () => {
      await start({ env: { REMOTE_DELIVERY: 'upload' } });
      await serve();
      expect(log.join('')).toContain('"uploaded"');
      await endsClean();
    });

    it('R5: a binary that does not match is never run', async () => {
      emulator.knobs.binary = 'other-bytes';
      await start();
      emulator.enqueue({ sessionId: A });
      await until(() => log.some((line) => line.includes('checksum-mismatch')));
      expect(pid()).toBeUndefined();
      emulator.knobs.binary = 'good';
      await connected();
      await endsClean();
    });

    it('J1, J3: an unused sandbox under our tags is removed, a foreign one is left alone', async () => {
      const client = await world.connect();
      const foreign = await client.run(['sleep', '600'], {
        tags: ['someone-else'],
        waitUntilRunning: false,
        timeoutMs: 5_000,
      });
      await start();
      await serve();
      await endsClean();
      expect(await world.alive('someone-else')).toEqual([foreign.sandboxId]);
      await client.delete(foreign.sandboxId, { timeoutMs: 5_000 });
    });

    it('D1, J2: without STATE_DIR, the same acceptor finds its sandbox and the running remote again', async () => {
      const first = await start();
      await serve();
      const before = await connected();
      await stop(first);
      await rm(join(stateDir, 'state'), { recursive: true });
      await start();
      await until(async () => (await stage()) === 'serving');
      expect(await run('cat file')).toBe('kept\n');
      expect(pid()).toBe(before);
      expect(creates(sent, nameOf(A))).toHaveLength(1);
      await endsClean();
    });

    it('D1: without STATE_DIR, a session that was asleep wakes with its files', async () => {
      const first = await start();
      await serve();
      emulator.sleep(A);
      await asleep();
      await stop(first);
      await rm(join(stateDir, 'state'), { recursive: true });
      await start();
      emulator.wake(A);
      await connected();
      expect(await run('cat file')).toBe('kept\n');
      await endsClean();
    });

    it('Q10: another daemon takes a dead one’s session over with its workspace, and the first lets go', async () => {
      const first = await start();
      await serve();
      const before = await connected();
      const [id] = await alive();
      await stop(first);
      emulator.expire(A);
      const otherState = join(stateDir, 'other');
      const second = await start({ acceptor: 'dvo-two', stateDir: otherState });
      await until(
        () => pid() !== undefined && pid() !== before && emulator.session(A)?.acceptor === 'dvo-two',
      );
      expect(await run('cat file')).toBe('kept\n');
      expect(await alive()).toEqual([id]);
      await start();
      await until(async () => (await stage()) === undefined, { what: 'the first lets go' });
      expect(await run('cat file')).toBe('kept\n');
      expect(await alive()).toEqual([id]);
      emulator.terminate(A);
      await until(async () => (await alive()).length === 0 && (await stage(A, otherState)) === undefined);
      expect(emulator.state().violations).toEqual([]);
      await stop(second);
    });

    it('T8: no token in any request, tag, argument, file, log line or index', async () => {
      await start();
      await serve();
      emulator.sleep(A);
      await asleep();
      emulator.wake(A);
      await connected();
      const tokens = [KEY, emulator.knobs.token, ...(emulator.store.sessions.get(A)?.tokens ?? [])];
      expect(tokens.length).toBeGreaterThan(2);
      const index = await readFile(join(stateDir, 'state/sandbox_index.json'), 'utf8');
      const everything = [...sent.map(({ text }) => text), ...log, index];
      for (const token of tokens)
        expect(everything.filter((text) => text.includes(token)).map((text) => text.slice(0, 200))).toEqual(
          [],
        );
      expect(await run(`grep -rlE '${tokens.join('|')}' . || true`)).toBe('');
      const names = (emulator.session(A)?.remote?.env ?? []).filter((one) => one.startsWith('CWSANDBOX'));
      expect(names).toEqual([]);
      await endsClean();
    });
  });
}

function creates(sent: readonly SentCall[], name: string): readonly SentCall[] {
  return sent.filter(({ method, text }) => method === 'run' && text.includes(name));
}

/** Case P1: between two creates under one name, and before the first, the platform is asked what there is. */
function expectLooksBeforeCreates(sent: readonly SentCall[], name: string): void {
  let looked = false;
  for (const { method, text } of sent) {
    if (!text.includes(name)) continue;
    if (method === 'listAll') looked = true;
    if (method !== 'run') continue;
    expect(looked, 'a create without a look').toBe(true);
    looked = false;
  }
}
