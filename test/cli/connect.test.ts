import { spawn } from 'node:child_process';
import { get } from 'node:http';
import { createServer } from 'node:net';
import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectOutpost } from '../../src/cli/connect/connect.ts';
import { withVariables } from '../../src/cli/connect/env-file.ts';
import { endingPage } from '../../src/cli/connect/page.ts';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { createHttp } from '../../src/outposts/http.ts';
import { MAIN } from '../support/command.ts';
import { until } from '../support/until.ts';

/** A path that no URL has, as it is. */
async function statusOf(port: number, path: string): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path }, (response) => resolve(response.resume().statusCode)).once(
      'error',
      reject,
    );
  });
}

describe('dvo connect', () => {
  let folder: string;
  let emulator: Emulator;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'dvo-connect-'));
    emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
  });
  afterEach(async () => {
    await emulator.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const envFile = (): string => join(folder, '.env');

  /** Starts the real command; `page` is what it asks the person to open. */
  async function start(...flags: string[]) {
    const argv = ['--', MAIN, 'connect', '--port', '0', '--app-url', emulator.url, '--env-file', envFile()];
    const env = { PATH: process.env['PATH'] ?? '', DEVIN_API_URL: emulator.url };
    const child = spawn(process.execPath, [...argv, ...flags], { env });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk) => (out += String(chunk)));
    child.stderr.on('data', (chunk) => (err += String(chunk)));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    const page = async (): Promise<string> =>
      await until(() => /http:\S+connect\?\S+/.exec(out)?.[0], { withinMs: 15_000 });
    return { page, ended, out: () => out, err: () => err, callback: async () => callbackOf(await page()) };
  }
  const callbackOf = (page: string): string => new URL(page).searchParams.get('callback_url') ?? '';

  it('writes token, address and outpost, keeps every other line, and says so in browser and terminal', async () => {
    const before =
      '# mine\nOUTPOST_ID=old\nWORKDIR=/workspace\nexport DEVIN_OUTPOSTS_TOKEN=cog_old\nOUTPOST_ID=older';
    await writeFile(envFile(), before, { mode: 0o644 });
    const run = await start('--name', 'lab');
    const browser = await fetch(await run.page());
    const text = await browser.text();
    expect([browser.status, await run.ended]).toEqual([200, 0]);
    expect(text).toContain('Connected');
    expect(await readFile(envFile(), 'utf8')).toBe(
      `# mine\nOUTPOST_ID=${emulator.outpostId}\nWORKDIR=/workspace\nDEVIN_OUTPOSTS_TOKEN=${emulator.knobs.token}\nDEVIN_API_URL=${emulator.url}\n`,
    );
    expect((await stat(envFile())).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(['.env']);
    expect(run.out()).toContain(emulator.outpostId);
    for (const shown of [run.out(), run.err(), text, browser.url])
      expect(shown).not.toContain(emulator.knobs.token);
  });

  it('makes the file when there is none, and writes through a symbolic link', async () => {
    const real = join(folder, 'real.env');
    await writeFile(real, '');
    await symlink(real, envFile());
    const run = await start();
    await fetch(await run.page());
    expect(await run.ended).toBe(0);
    expect(await readFile(real, 'utf8')).toContain(`OUTPOST_ID=${emulator.outpostId}\n`);
    await rm(envFile());
    const again = await start();
    await fetch(await again.page());
    expect(await again.ended).toBe(0);
    expect((await stat(envFile())).mode & 0o777).toBe(0o600);
  });

  it.each([
    ['the administrator says no', 'deny', 'the administrator said no (access_denied)'],
    ['the answer is to another attempt', 'forged', 'the answer to another attempt'],
  ] as const)(
    '%s: one line, exit code 1, nothing written, and the page says it',
    async (_, consent, words) => {
      emulator.knobs.consent = consent;
      await writeFile(envFile(), 'MINE=1\n');
      const run = await start();
      const browser = await fetch(await run.page());
      expect([browser.status, await run.ended]).toEqual([400, 1]);
      expect(await browser.text()).toContain(words);
      expect(run.err()).toContain(words);
      expect(run.err().trim().split('\n')).toHaveLength(1);
      expect(await readFile(envFile(), 'utf8')).toBe('MINE=1\n');
    },
  );

  it('a code that Devin does not know ends it as invalid_grant', async () => {
    const run = await start();
    const browser = await fetch(`${await run.callback()}?code=made-up`);
    expect([browser.status, await run.ended]).toEqual([400, 1]);
    expect(run.err()).toMatch(/^dvo connect: .*invalid_grant.*run dvo connect again\n$/);
    expect(await readdir(folder)).toEqual([]);
  });

  it.each([
    ['html', { kind: 'html', status: 502 }, /answered 502/],
    ['an answer without a token', { kind: 'status', status: 200 }, /cannot be read \(outpost_id/],
    ['a reset', { kind: 'reset' }, /cannot be reached/],
  ] as const)('the exchange is answered with %s: one line, nothing written', async (_, fault, words) => {
    emulator.fault({ route: 'connection-token', count: 1, ...fault });
    const run = await start();
    await fetch(await run.page());
    expect(await run.ended).toBe(1);
    expect(run.err()).toMatch(words);
    expect(run.err().trim().split('\n')).toHaveLength(1);
    expect(await readdir(folder)).toEqual([]);
  });

  it('other requests to the listener do not end the wait', async () => {
    const run = await start();
    const callback = await run.callback();
    const odd = [callback, callback.replace('/callback', '/favicon.ico?code=x')];
    for (const url of odd) expect((await fetch(url)).status).toBe(404);
    expect(await statusOf(Number(new URL(callback).port), '//')).toBe(404);
    expect((await fetch(`${callback}?code=x`, { method: 'POST' })).status).toBe(404);
    await fetch(await run.page());
    expect(await run.ended).toBe(0);
  });

  it('gives up after ten minutes', async () => {
    const http = createHttp({ bodyTimeoutMs: 1_000 });
    const waits: number[] = [];
    const clock = {
      now: () => 0,
      sleep: async (ms: number): Promise<void> => {
        waits.push(ms);
      },
    };
    let err = '';
    const terminal = {
      env: {},
      out: () => undefined,
      err: (text: string) => void (err += text),
      interactive: false,
      color: false,
      streams: process,
    };
    const flags = {
      name: 'lab',
      platform: 'linux',
      port: '0',
      envFile: envFile(),
      appUrl: 'https://app.example',
    };
    const code = await connectOutpost(flags, terminal, { clock, random: systemRandom, fetch: http.fetch });
    await http.close();
    expect([code, err]).toEqual([
      1,
      'dvo connect: nobody agreed within ten minutes; run dvo connect again\n',
    ]);
    expect(waits).toEqual([600_000]);
  });

  it('a port in use, a wrong port, an unsafe address and a folder that is not there are wrong settings', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await until(() => taken.listening);
    const address = taken.address();
    const port = typeof address === 'object' ? String(address?.port) : '';
    for (const [flags, words] of [
      [['--port', port], `port ${port} is in use`],
      [['--port', '70000'], '--port is "70000"'],
      [['--app-url', 'http://app.example'], 'it must be an https URL'],
      [['--env-file', join(folder, 'no', '.env')], 'cannot be written'],
    ] as const) {
      const run = await start(...flags);
      expect([await run.ended, run.err()]).toEqual([2, expect.stringContaining(words)]);
    }
    taken.close();
  });

  it('does not begin when the file names a token file, which would contradict the token', async () => {
    await writeFile(envFile(), 'DEVIN_OUTPOSTS_TOKEN_FILE=/run/secrets/devin\n');
    const run = await start();
    expect(await run.ended).toBe(2);
    expect(run.err()).toContain('remove that line');
  });
});

describe('a .env file', () => {
  it('a commented line is no setting, an empty one is replaced where it stands', () => {
    expect(withVariables('# A=1\nA=\nB=2\n', { A: 'x' })).toBe('# A=1\nA=x\nB=2\n');
  });
  it('an empty file gets the lines, a file without a last line end keeps its line whole', () => {
    expect(withVariables('', { A: 'x' })).toBe('A=x\n');
    expect(withVariables('B=2', { A: 'x' })).toBe('B=2\nA=x\n');
  });
});

describe('the last page', () => {
  it('shows hostile text as text', () => {
    const page = endingPage({ ok: false, title: '<script>x</script>', text: '"><img src=x onerror=y>' });
    expect(page).not.toContain('<script>');
    expect(page).not.toContain('<img');
  });
});
