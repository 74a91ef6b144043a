import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { doctor, type DoctorFlags } from '../../src/cli/doctor/doctor.ts';
import { judgeTools } from '../../src/cli/doctor/tools.ts';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { createHttp, type Http } from '../../src/outposts/http.ts';
import { createLocalProvider } from '../../src/sandboxes/local/provider.ts';
import { kill, processesOf } from '../../src/sandboxes/local/processes.ts';
import { ProviderError, type ProviderErrorKind, type SandboxProvider } from '../../src/sandboxes/provider.ts';
import { nodeDisk } from '../../src/state/node-disk.ts';
import { lockStateDir } from '../../src/state/lock.ts';
import { MAIN } from '../support/command.ts';
import { until } from '../support/until.ts';

interface Row {
  readonly id: string;
  readonly state: 'pass' | 'fail' | 'skip';
  readonly cause?: string;
  readonly fix?: string;
  readonly why?: string;
  readonly detail?: string;
  readonly tookMs: number;
}

describe('dvo doctor', () => {
  let folder: string;
  let emulator: Emulator;
  let http: Http;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'dvo-doctor-'));
    emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
    http = createHttp({ bodyTimeoutMs: 5_000 });
  });
  afterEach(async () => {
    await http.close();
    await emulator.stop();
    await kill(await processesOf(folder));
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const settings = () => ({
    PATH: process.env['PATH'] ?? '',
    STATE_DIR: folder,
    SANDBOX_PROVIDER: 'local',
    DEVIN_API_URL: emulator.url,
    OUTPOST_ID: emulator.outpostId,
    DEVIN_OUTPOSTS_TOKEN: emulator.knobs.token,
    DEVIN_WORKER_STATIC_BASE_URL: emulator.staticUrl,
  });
  const local = (): Promise<SandboxProvider> =>
    createLocalProvider({
      root: join(folder, 'local'),
      clock: systemClock,
      random: systemRandom,
      path: process.env['PATH'] ?? '',
    });

  interface How {
    readonly env?: Readonly<Record<string, string>>;
    readonly flags?: DoctorFlags;
    readonly open?: () => Promise<SandboxProvider>;
    readonly signal?: AbortSignal;
    readonly now?: () => number;
    readonly color?: boolean;
  }
  /** Runs it in this process against the real emulator. */
  async function examine({ env = {}, flags = {}, open, signal, now, color = false }: How = {}) {
    let out = '';
    const write = (text: string): void => void (out += text);
    const terminal = {
      env: { ...settings(), ...env },
      out: write,
      err: write,
      interactive: false,
      color,
      streams: process,
    };
    const clock = { ...systemClock, ...(now === undefined ? {} : { now }) };
    const code = await doctor(flags, terminal, {
      clock,
      random: systemRandom,
      http,
      signal: signal ?? new AbortController().signal,
      ...(open === undefined ? {} : { open }),
    });
    return { code, out };
  }
  async function rows(how: How = {}): Promise<{ readonly code: number; readonly all: readonly Row[] }> {
    const { code, out } = await examine({ ...how, flags: { ...how.flags, json: true } });
    return { code, all: JSON.parse(out).checks };
  }
  async function failure(how: How = {}): Promise<Row> {
    const { code, all } = await rows(how);
    const failed = all.filter(({ state }) => state === 'fail');
    expect(failed.map(({ id }) => id)).toHaveLength(1);
    expect(code).toBe(1);
    return failed[0] as Row;
  }
  /** What is left of sandboxes and archives. */
  const left = async (): Promise<readonly string[]> => {
    const provider = await local();
    const call = { timeoutMs: 10_000, signal: new AbortController().signal };
    const active = await provider.list({ tags: [], include: 'active' }, call);
    const archives = await readdir(join(folder, 'local', 'snapshots'));
    return [...active.map(({ id }) => id), ...archives];
  };

  it('all is well: every check passes in order, those that make sandboxes are not run without --deep', async () => {
    const { code, all } = await rows();
    expect(all.map(({ id, state }) => `${id} ${state}`)).toEqual([
      'config pass',
      'token pass',
      'outpost pass',
      'clock pass',
      'platform pass',
      'image skip',
      'archive skip',
      'binary pass',
      'state pass',
    ]);
    expect(code).toBe(0);
    expect(all.every(({ tookMs }) => tookMs >= 0)).toBe(true);
  });

  it('the real command prints lines without colours into a pipe, and never the token', async () => {
    const child = spawn(process.execPath, [MAIN, 'doctor'], { env: settings() });
    let out = '';
    child.stdout.on('data', (chunk) => (out += String(chunk)));
    const code = await new Promise((resolve) => child.once('close', resolve));
    expect(code).toBe(0);
    expect(out).toContain('✔ Devin accepts the token');
    expect(out).toContain('– the image has git, curl and sha256sum  makes a sandbox: dvo doctor --deep');
    expect(out).not.toContain('\u001b[');
    expect(out).not.toContain(emulator.knobs.token);
  });

  it('paints only when colours are wanted', async () => {
    expect((await examine({ color: true })).out).toContain('\u001b[32m✔\u001b[0m');
  });

  it('a wrong configuration: exit code 2, every problem named, and what can be looked at is', async () => {
    const { code, out } = await examine({ env: { OUTPOST_ID: '', MAX_CONCURRENT_SESSIONS: 'many' } });
    expect(code).toBe(2);
    expect(out).toContain('OUTPOST_ID is not set');
    expect(out).toContain('MAX_CONCURRENT_SESSIONS is "many"');
    expect(out).toContain('– Devin accepts the token  needs OUTPOST_ID');
    expect(out).toMatch(/✔ devin-remote can be had[^]*✔ STATE_DIR can be written/);
  });

  it('a STATE_DIR that cannot be one does not keep it from looking at the rest', async () => {
    const { code, out } = await examine({ env: { STATE_DIR: '/proc/nowhere' } });
    expect(code).toBe(2);
    expect(out).toMatch(
      /✔ Devin accepts the token[^]*– STATE_DIR can be written and locked {2}needs STATE_DIR/,
    );
  });

  it.each([
    [
      'a wrong token',
      { DEVIN_OUTPOSTS_TOKEN: 'cog_wrong_token' },
      'token',
      /not accept DEVIN_OUTPOSTS_TOKEN/,
      /dvo connect/,
    ],
    [
      'an outpost of another account',
      { OUTPOST_ID: 'outpost_env-other' },
      'outpost',
      /not among/,
      /outpost_env-emulator/,
    ],
    [
      'an API that is not there',
      { DEVIN_API_URL: 'http://127.0.0.1:9' },
      'token',
      /gives no answer/,
      /DEVIN_API_URL/,
    ],
    [
      'a distribution that is not there',
      { DEVIN_WORKER_STATIC_BASE_URL: 'http://127.0.0.1:9' },
      'binary',
      /cannot be read/,
      /DEVIN_WORKER_STATIC_BASE_URL/,
    ],
    [
      'a build that was never published',
      { DEVIN_WORKER_REMOTE_SHA: 'abcdef0123' },
      'binary',
      /answered 404/,
      /DEVIN_WORKER_REMOTE_SHA/,
    ],
  ])('%s is named, with its fix', async (_, env, id, cause, fix) => {
    const row = await failure({ env });
    expect([row.id, row.cause, row.fix]).toEqual([
      id,
      expect.stringMatching(cause),
      expect.stringMatching(fix),
    ]);
  });

  it.each([
    [
      { route: 'list', kind: 'status', status: 403, count: 1 },
      'token',
      /may not read/,
      /account\.outposts\.machine/,
    ],
    [{ route: 'list', kind: 'status', status: 404, count: 1 }, 'token', /no queue/, /OUTPOST_ID/],
    [{ route: 'list', kind: 'status', status: 503, count: 1 }, 'token', /answers 503/, /try again/],
    [{ route: 'list', kind: 'html', status: 200, count: 1 }, 'token', /without JSON/, /DEVIN_API_URL/],
    [{ route: 'list', kind: 'reset', count: 1 }, 'token', /gives no answer/, /firewall/],
    [
      { route: 'outposts', kind: 'status', status: 500, count: 1 },
      'outpost',
      /answered with 500/,
      /try again/,
    ],
    [{ route: 'binary', kind: 'status', status: 404, count: 1 }, 'binary', /answered 404/, /published there/],
  ] as const)('fault %j is named, with its fix', async (fault, id, cause, fix) => {
    emulator.fault(fault);
    const row = await failure();
    expect([row.id, row.cause, row.fix]).toEqual([
      id,
      expect.stringMatching(cause),
      expect.stringMatching(fix),
    ]);
  });

  it('a token that may not list outposts is no fault', async () => {
    emulator.fault({ route: 'outposts', kind: 'status', status: 403, count: 2 });
    const { code, all } = await rows();
    expect(all.find(({ id }) => id === 'outpost')).toMatchObject({ state: 'skip' });
    expect(code).toBe(0);
  });

  it('is not well when what a flag asked for was not run', async () => {
    const stopped = { flags: { deep: true }, signal: AbortSignal.abort(), open: local };
    const { code, out } = await examine(stopped);
    expect(code).toBe(1);
    expect(out).toContain('not all that was asked for was run');
    expect(JSON.parse((await examine({ ...stopped, flags: { deep: true, json: true } })).out).ok).toBe(false);
  });

  it.each([
    [{ checksum: 'other-file' }, /does not hold the checksum/],
    [{ checksum: 'missing' }, /answered 404/],
    [{ binary: 'truncated' }, /does not match its published checksum/],
    [{ binary: 'html' }, /does not match its published checksum/],
  ] as const)('a bad publication %j is named', async (knobs, cause) => {
    Object.assign(emulator.knobs, knobs);
    expect(await failure()).toMatchObject({ id: 'binary', cause: expect.stringMatching(cause) });
  });

  it('a clock that is wrong is named with its direction', async () => {
    const row = await failure({ now: () => Date.now() - 90_000 });
    expect(row).toMatchObject({
      id: 'clock',
      cause: expect.stringMatching(/(89|90|91) s behind/),
      fix: expect.stringContaining('ntp'),
    });
  });

  it('a STATE_DIR that cannot be used is named; one that a daemon holds is in order', async () => {
    await writeFile(join(folder, 'file'), '');
    const broken = await rows({ env: { STATE_DIR: join(folder, 'file') }, open: local });
    expect(broken.all.at(-1)).toMatchObject({
      id: 'state',
      state: 'fail',
      fix: expect.stringContaining('STATE_DIR'),
    });
    const lock = await lockStateDir(folder, nodeDisk, Date.now());
    const held = await rows();
    lock.release();
    expect(held.all.at(-1)).toMatchObject({
      state: 'pass',
      detail: expect.stringContaining(`process ${process.pid}`),
    });
  });

  describe('--deep', () => {
    /** The local provider, with one method that fails after `before` ran, if asked to. */
    async function broken(
      method: 'create' | 'exec' | 'snapshot' | 'writeFile' | 'readFile' | 'list',
      error: (...args: readonly unknown[]) => Error | undefined,
      effect: 'none' | 'done' = 'none',
    ): Promise<SandboxProvider> {
      const inner = await local();
      return new Proxy(inner, {
        get(target, property) {
          const value = Reflect.get(target, property);
          if (typeof value !== 'function') return value;
          return async (...args: readonly unknown[]) => {
            const wrong = property === method ? error(...args) : undefined;
            if (wrong === undefined) return await Reflect.apply(value, target, args);
            if (effect === 'done') await Reflect.apply(value, target, args);
            throw wrong;
          };
        },
      });
    }

    it('makes, looks, archives, restores, and leaves nothing', async () => {
      const { code, all } = await rows({ flags: { deep: true } });
      expect(all.map(({ id, state }) => `${id} ${state}`)).toEqual([
        'config pass',
        'token pass',
        'outpost pass',
        'clock pass',
        'platform pass',
        'sandbox pass',
        'image pass',
        'snapshot pass',
        'restore pass',
        'left pass',
        'binary pass',
        'state pass',
      ]);
      expect(code).toBe(0);
      expect(await left()).toEqual([]);
    });

    it.each([
      ['create', 'unauthenticated', 'sandbox', /credential/],
      ['create', 'exhausted', 'sandbox', /quota/],
      ['create', 'misconfigured', 'sandbox', /SANDBOX_IMAGE/],
      ['exec', 'gone', 'image', /main process/],
      ['snapshot', 'unsupported', 'snapshot', /SUSPEND_MODE=keep/],
      ['snapshot', 'archive-failed', 'snapshot', /archives/],
    ] as const)(
      '%s failing as %s is named, and nothing is left',
      async (method, kind: ProviderErrorKind, id, fix) => {
        const open = () => broken(method, () => new ProviderError(kind, 'the platform said so'));
        const row = await failure({ flags: { deep: true }, open });
        expect([row.id, row.cause, row.fix]).toEqual([
          id,
          `the platform said so (${kind})`,
          expect.stringMatching(fix),
        ]);
        expect(await left()).toEqual([]);
      },
    );

    it('a refused credential is named before anything is made', async () => {
      const open = () => broken('list', () => new ProviderError('unauthenticated', 'no such key'));
      expect(await failure({ flags: { deep: true }, open })).toMatchObject({
        id: 'platform',
        fix: expect.stringContaining('CWSANDBOX_API_KEY'),
      });
    });

    it('a create and an archive whose answers were lost are found and removed', async () => {
      for (const method of ['create', 'snapshot'] as const) {
        const open = () => broken(method, () => new ProviderError('ambiguous', 'cut off'), 'done');
        await failure({ flags: { deep: true }, open });
        expect(await left()).toEqual([]);
      }
    });

    it('a restore that brings back something else is a failure', async () => {
      const inner = await local();
      const open = async (): Promise<SandboxProvider> =>
        new Proxy(inner, {
          get(target, property) {
            if (property === 'readFile') return async () => new TextEncoder().encode('other');
            const value = Reflect.get(target, property);
            return typeof value === 'function' ? value.bind(target) : value;
          },
        });
      expect(await failure({ flags: { deep: true }, open })).toMatchObject({ id: 'restore' });
      expect(await left()).toEqual([]);
    });

    it('interrupted half-way it removes what it made', async () => {
      const stop = new AbortController();
      const open = () =>
        broken('writeFile', () => {
          stop.abort();
          return undefined;
        });
      const { code, all } = await rows({ flags: { deep: true }, open, signal: stop.signal });
      expect(all.find(({ id }) => id === 'left')).toMatchObject({ state: 'pass' });
      expect(all.find(({ id }) => id === 'snapshot')).toMatchObject({ state: 'skip', why: 'interrupted' });
      expect(code).toBe(1);
      expect(await left()).toEqual([]);
    });

    it('Ctrl-C on the real command removes what it made', async () => {
      const child = spawn(process.execPath, [MAIN, 'doctor', '--deep'], { env: settings() });
      let out = '';
      child.stdout.on('data', (chunk) => (out += String(chunk)));
      const ended = new Promise((resolve) => child.once('close', resolve));
      await until(() => out.includes('a sandbox starts'));
      child.kill('SIGINT');
      const code = await ended;
      expect(out).toContain('✔ nothing of it is left');
      expect(code).toBe(1);
      expect(await left()).toEqual([]);
    });
  });
});

describe('the tools of an image', () => {
  it('what dvo installs itself is no failure where it may install', () => {
    expect(judgeTools(['tools', 'can-install', 'git', 'curl'])).toMatchObject({ state: 'pass' });
    expect(judgeTools(['tools', 'cannot-install', 'git'])).toMatchObject({
      state: 'fail',
      cause: 'the image lacks: git',
    });
    expect(judgeTools(['tools', 'can-install', 'flock'])).toMatchObject({
      state: 'fail',
      fix: expect.stringContaining('worker-image'),
    });
    expect(judgeTools(['tools', 'can-install', 'user:devin'])).toMatchObject({
      fix: expect.stringContaining('SANDBOX_USER'),
    });
  });
});
