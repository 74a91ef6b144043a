import { createHash } from 'node:crypto';
import { spawn } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Distribution } from '../../src/emulator/distribution.ts';
import { DEFAULT_KNOBS, type Knobs } from '../../src/emulator/settings.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import type { Call } from '../../src/lib/deadline.ts';
import { Secret } from '../../src/lib/secret.ts';
import { createRemoteControl, type RemoteSettings } from '../../src/remote/control.ts';
import type { Marker, RemoteControl, Target } from '../../src/remote/port.ts';
import { parseProbe } from '../../src/remote/probe.ts';
import { quote } from '../../src/remote/quote.ts';
import { createLocalProvider } from '../../src/sandboxes/local/provider.ts';
import { kill, processesOf, startTimeOf } from '../../src/sandboxes/local/processes.ts';
import type { SandboxProvider } from '../../src/sandboxes/provider.ts';
import { until } from '../support/until.ts';

const call = (timeoutMs = 20_000): Call => ({ timeoutMs, signal: new AbortController().signal });
const TOKEN = 'ct_connect_token_0123456789';
const MARKER: Marker = {
  version: 1,
  sessionId: "devin-'1'",
  outpostId: 'o',
  acceptorId: 'me',
  name: 'dvo-1',
  sandboxId: 'sandbox-1',
};

describe('the remote in a sandbox', () => {
  let root: string;
  let server: Server;
  let provider: SandboxProvider;
  let target: Target;
  let knobs: Knobs;
  let distribution: Distribution;
  let base: string;

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'dvo-remote-'));
    knobs = { ...DEFAULT_KNOBS };
    distribution = new Distribution(knobs, process.execPath);
    distribution.publish('first');
    server = createServer((request, response) => {
      const [, sha = '', sum] = /_([0-9a-f]+)_linux_x64(\.sha256)?$/.exec(request.url ?? '') ?? [];
      if (request.url === '/latest_linux_x64') distribution.sendLatest(response);
      else if (sum === undefined) distribution.sendBinary(sha, response);
      else distribution.sendChecksum(sha, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    provider = await createLocalProvider({
      root,
      clock: systemClock,
      random: systemRandom,
      path: process.env['PATH'] ?? '',
    });
    const info = await provider.create({ tags: ['dvo-1'] }, call());
    target = { sandboxId: info.id, paths: info.paths };
  });

  afterEach(async () => {
    await until(async () => {
      const left = await processesOf(root);
      await kill(left);
      return left.length === 0;
    });
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(root, { recursive: true, force: true, maxRetries: 5 });
  });

  function control(settings: Partial<RemoteSettings> = {}): RemoteControl {
    return createRemoteControl({
      provider,
      clock: systemClock,
      random: systemRandom,
      fetch,
      settings: {
        staticBaseUrl: base,
        delivery: 'auto',
        cacheDir: join(root, 'cache'),
        repos: [],
        gitUsername: 'x-access-token',
        desktop: true,
        ...settings,
      },
    });
  }

  async function prepared(remote = control()) {
    const binary = await remote.resolve(undefined, call());
    const report = await remote.prepare(target, { binary, marker: MARKER }, call());
    if (report.kind !== 'prepared') throw new Error(report.kind);
    return { binary, report };
  }

  async function launched(launchId = 'a1', remote = control()) {
    const { binary } = await prepared(remote);
    return await remote.launch(
      target,
      {
        launchId,
        sessionId: MARKER.sessionId,
        sha: binary.sha,
        connectToken: new Secret(TOKEN),
        // Nobody listens there: the stand-in keeps trying, which is all it has to do here.
        gatewayUrl: 'ws://127.0.0.1:9/gateway',
      },
      call(),
    );
  }

  const sh = async (script: string) =>
    await provider.exec(target.sandboxId, { argv: ['bash', '-c', script] }, call());

  it('prepares in one go: marker first, verified binary, directories; and quickly again', async () => {
    const remote = control();
    expect(await remote.readMarker(target, call())).toBeUndefined();
    expect((await prepared(remote)).report.downloaded).toBe(true);
    expect(await remote.readMarker(target, call())).toEqual(MARKER);
    expect((await prepared(remote)).report.downloaded).toBe(false);
    await provider.writeFile(
      target.sandboxId,
      `${target.paths.volume}/.dvo/session.json`,
      Buffer.from('{'),
      call(),
    );
    await expect(remote.readMarker(target, call())).rejects.toMatchObject({ code: 'remote' });
  });

  it('a marker that the session made enormous is damaged, is never taken whole, and is replaced', async () => {
    const remote = control();
    await prepared(remote);
    // More than could be taken: more than fits into one buffer.
    await sh(`truncate -s 3G ${target.paths.volume}/.dvo/session.json`);
    await expect(remote.readMarker(target, call())).rejects.toMatchObject({ code: 'remote' });
    await prepared(remote);
    expect(await remote.readMarker(target, call())).toEqual(MARKER);
  });

  it.each(['mkfifo', 'mkdir', 'ln -s /dev/zero', 'ln -s /nowhere'])(
    'what %s put in the marker’s place is a damaged marker, not none',
    async (command) => {
      await sh(`mkdir -p ${target.paths.volume}/.dvo && ${command} ${target.paths.volume}/.dvo/session.json`);
      await expect(control().readMarker(target, call())).rejects.toMatchObject({ code: 'remote' });
    },
  );

  it('a launch that the session gave a name without end is none that we know', async () => {
    const record = `${target.paths.run}/remote`;
    await launched();
    await sh(`sed -i "s/^a1/$(printf 'x%.0s' {1..2000})/" ${record}`);
    expect(await control().probe(target, call())).toEqual({ kind: 'gone' });
  });

  it('a sandbox that is about to be destroyed is not begun in, by whoever marks it second', async () => {
    const remote = control();
    const binary = await remote.resolve(undefined, call());
    expect(await remote.condemn(target, call())).toBeUndefined();
    const request = { binary, marker: MARKER };
    expect(await remote.prepare(target, request, call())).toEqual({ kind: 'condemned' });
    // The destroyer sees who came, and gives way.
    expect(await remote.condemn(target, call())).toEqual(MARKER);
    await remote.spare(target, call());
    expect(await remote.prepare(target, request, call())).toMatchObject({ kind: 'prepared' });
    // The mark of another sandbox came with an archive.
    await provider.writeFile(
      target.sandboxId,
      `${target.paths.volume}/.dvo/condemned`,
      Buffer.from('another'),
      call(),
    );
    expect(await remote.prepare(target, request, call())).toMatchObject({ kind: 'prepared' });
  });

  it('a late prepare does not take back what another daemon has taken over meanwhile', async () => {
    const remote = control();
    const { binary } = await prepared(remote);
    const others = { ...MARKER, sandboxId: target.sandboxId, acceptorId: 'another' };
    await expect(
      remote.prepare(target, { binary, marker: others, replaces: MARKER.acceptorId }, call()),
    ).resolves.toMatchObject({ kind: 'prepared' });
    const ours = { ...MARKER, sandboxId: target.sandboxId };
    const late = await remote.prepare(target, { binary, marker: ours }, call());
    expect(late).toEqual({ kind: 'foreign' });
    expect(await remote.readMarker(target, call())).toEqual(others);
    const wrong = await remote.prepare(target, { binary, marker: ours, replaces: 'a third' }, call());
    expect(wrong).toEqual({ kind: 'foreign' });
    const again = await remote.prepare(target, { binary, marker: ours, replaces: 'another' }, call());
    expect(again).toMatchObject({ kind: 'prepared' });
    expect(await remote.readMarker(target, call())).toEqual(ours);
  });

  it.each([
    [{ checksum: 'missing' }, 'distribution'],
    [{ checksum: 'empty' }, 'distribution'],
    [{ checksum: 'html' }, 'distribution'],
    [{ checksum: 'other-file' }, 'distribution'],
    [{ binary: 'truncated' }, 'remote'],
    [{ binary: 'html' }, 'remote'],
    [{ binary: 'other-bytes' }, 'remote'],
  ] as const)('R5: refuses %o, and leaves nothing that can run', async (wrong, code) => {
    Object.assign(knobs, wrong);
    await expect(prepared(control({ delivery: 'download' }))).rejects.toMatchObject({ code });
    expect((await sh(`find ${target.paths.volume} -type f -perm /111`)).stdout).toBe('');
  });

  it.each([{ checksum: 'crlf-upper' }, { checksum: 'with-name' }] as const)(
    'R5: accepts %o',
    async (form) => {
      Object.assign(knobs, form);
      expect((await prepared()).report.downloaded).toBe(true);
    },
  );

  it('R1 of the binary: refuses a SHA that is none, before it goes into a URL', async () => {
    await expect(control().resolve('../../etc', call())).rejects.toMatchObject({ code: 'distribution' });
    await expect(control({ sha: 'HEAD' }).resolve(undefined, call())).rejects.toMatchObject({
      code: 'distribution',
    });
  });

  it('R5: a copy that was tampered with in the volume is replaced before it can run', async () => {
    const { binary } = await prepared();
    const path = `${target.paths.volume}/.dvo/bin/${binary.sha}/devin-remote`;
    await sh(`echo evil >> ${path}`);
    expect((await prepared()).report.downloaded).toBe(true);
    expect((await sh(`grep -c evil ${path}`)).stdout.trim()).toBe('0');
  });

  it('R7: uploads what the sandbox cannot download, verified, and caches it', async () => {
    const { report } = await prepared(control({ delivery: 'upload' }));
    expect(report).toMatchObject({ downloaded: true, notes: ['uploaded'] });
    expect(await readdir(join(root, 'cache'))).toHaveLength(1);
    const { pid } = await launched('a1', control({ delivery: 'upload' }));
    expect(await startTimeOf(pid)).toBeDefined();
  });

  it('R7: a kept copy that was spoilt on disk is fetched anew, and few are kept', async () => {
    const remote = control({ delivery: 'upload' });
    const cache = join(root, 'cache');
    await mkdir(cache, { recursive: true });
    for (const name of ['old-a', 'old-b', 'old-c', 'old-d']) await writeFile(join(cache, name), name);
    const abandoned = join(cache, 'devin-remote_x.1234.part');
    await writeFile(abandoned, 'half');
    await utimes(abandoned, 0, 0);
    await prepared(remote);
    const kept = await readdir(cache);
    expect(kept).toHaveLength(3);
    expect(kept).not.toContain('devin-remote_x.1234.part');
    const copy = kept.find((name) => name.startsWith('devin-remote_')) ?? '';
    await writeFile(join(cache, copy), 'spoilt');
    await sh(`rm -r ${target.paths.volume}/.dvo/bin`);
    expect((await prepared(remote)).report.notes).toEqual(['uploaded']);
    expect(
      createHash('sha256')
        .update(await readFile(join(cache, copy)))
        .digest('hex'),
    ).toBe(copy.replace('devin-remote_', ''));
  });

  it('R1, R4 of the launch: returns though the remote holds its output, and the remote lives on', async () => {
    const { pid, adopted } = await launched();
    expect(adopted).toBe(false);
    expect(await control().probe(target, call())).toEqual({ kind: 'running', launchId: 'a1', pid });
  });

  it('R6: five launches, in turn and at once, are one process', async () => {
    const { pid } = await launched('a0');
    for (const id of ['b1', 'b2'])
      expect(await launched(id)).toMatchObject({ launchId: 'a0', pid, adopted: true });
    const together = await Promise.all(['c1', 'c2', 'c3'].map((id) => launched(id)));
    expect(together.every((one) => one.pid === pid)).toBe(true);
    expect((await sh('pgrep -fc "devin-remote serve$"')).stdout.trim()).not.toBe('0');
    const remotes = (await processesOf(root)).map((one) => one.pid);
    const serving = await Promise.all(
      remotes.map((one) => readFile(`/proc/${one}/cmdline`, 'utf8').catch(() => '')),
    );
    expect(serving.filter((line) => line.includes('devin-remote\0serve'))).toHaveLength(1);
  });

  it('R6: adopts a remote whose supervisor was killed', async () => {
    const { pid } = await launched('a0');
    const supervisor = Number((await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[1]);
    process.kill(supervisor, 'SIGKILL');
    await until(async () => (await startTimeOf(supervisor)) === undefined);
    expect(await launched('a1')).toMatchObject({ launchId: 'a0', pid, adopted: true });
    expect(await control().probe(target, call())).toMatchObject({ kind: 'running', pid });
  });

  it('R2, R3: tells an exit code from a killed one, and a stranger on the pid from the remote', async () => {
    const { pid } = await launched('a1');
    process.kill(pid, 'SIGTERM');
    const ended = await until(async () => {
      const seen = await control().probe(target, call());
      return seen.kind !== 'running' && seen;
    });
    expect(ended).toEqual({ kind: 'exited', launchId: 'a1', exitCode: 143 });
    const boot = (await sh(`cat ${target.paths.run}/boot-id`)).stdout.trim();
    await writeFile(join(target.paths.run, 'remote'), `a2 ${process.pid} 1 ${boot}\n`);
    expect(await control().probe(target, call())).toEqual({ kind: 'gone' });
    await control().stop(target, undefined, call());
    expect(await startTimeOf(process.pid)).toBeDefined();
  });

  it('R3: a zombie is gone', async () => {
    await prepared();
    const parent = spawn('bash', ['-c', 'sleep 0.01 & exec sleep 30'], { stdio: 'ignore' });
    try {
      const zombie = await until(async () => {
        const pids = (await readFile(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8')).trim();
        if (pids === '') return false;
        const stat = await readFile(`/proc/${pids}/stat`, 'utf8');
        return stat.includes(') Z ') && { pid: Number(pids), start: stat.split(') ')[1]?.split(' ')[19] };
      });
      const boot = (await sh(`cat ${target.paths.run}/boot-id`)).stdout.trim();
      await writeFile(join(target.paths.run, 'remote'), `a1 ${zombie.pid} ${zombie.start} ${boot}\n`);
      expect(await control().probe(target, call())).toEqual({ kind: 'gone' });
    } finally {
      parent.kill('SIGKILL');
    }
  });

  it('R4: after a restart of the container in place the remote is gone, and is launched once', async () => {
    const { pid } = await launched('a1');
    await kill(await processesOf(join(root, 'sandboxes')));
    await rm(target.paths.run, { recursive: true });
    expect(await control().probe(target, call())).toEqual({ kind: 'gone' });
    const again = await launched('a2');
    expect(again).toMatchObject({ launchId: 'a2', adopted: false });
    expect(again.pid).not.toBe(pid);
  });

  it('stops its own launch with everything it started, and no other', async () => {
    const { pid } = await launched('a1');
    await control().stop(target, 'another', call());
    expect(await control().probe(target, call())).toMatchObject({ kind: 'running', pid });
    await control().stop(target, 'a1', call());
    await control().stop(target, 'a1', call());
    await until(async () => (await processesOf(join(root, 'sandboxes'))).length === 0);
  });

  it('T8: the token stands in no argv, in no file, and in no environment but the remote’s', async () => {
    const { pid } = await launched('a1');
    for (const one of await processesOf(root)) {
      expect(await readFile(`/proc/${one.pid}/cmdline`, 'utf8')).not.toContain(TOKEN);
      const environ = await readFile(`/proc/${one.pid}/environ`, 'utf8');
      expect(environ.includes(TOKEN)).toBe(one.pid === pid);
    }
    expect(
      (await sh(`grep -rl ${TOKEN} ${target.paths.volume} ${target.paths.run} ${root} | head`)).stdout,
    ).toBe('');
  });

  it('T9: clones with a token that is nowhere afterwards; a failing clone is a note', async () => {
    const token = 'ghp_0123456789_secret';
    const seen: string[] = [];
    const git = createServer((request, response) => {
      seen.push(request.headers.authorization ?? 'none');
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end(`denied ${request.url}`);
    });
    await new Promise<void>((resolve) => git.listen(0, '127.0.0.1', resolve));
    const address = git.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/org/app.git`;
    try {
      const remote = control({ repos: [url], gitToken: () => new Secret(token) });
      const { report } = await prepared(remote);
      expect(report.notes).toContain('clone-failed-app');
      const basic = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
      expect(seen).toContain(basic);
      expect((await sh(`grep -rl ${token} ${root} | head`)).stdout).toBe('');
      expect((await sh(`ls ${target.paths.run} ${target.paths.volume}/repos`)).stdout).not.toMatch(
        /askpass|app/,
      );
    } finally {
      git.closeAllConnections();
      git.close();
    }
  });

  it('T9: a host that the repository redirects to is not given the token', async () => {
    const token = 'ghp_0123456789_secret';
    const seen: (string | undefined)[] = [];
    const other = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
    });
    const otherPort = await listenOn(other);
    const git = createServer((request, response) => {
      response.writeHead(302, { location: `http://localhost:${otherPort}${request.url}` }).end();
    });
    const port = await listenOn(git);
    try {
      const url = `http://127.0.0.1:${port}/org/app.git`;
      const { report } = await prepared(control({ repos: [url], gitToken: () => new Secret(token) }));
      expect(report.notes).toContain('clone-failed-app');
      expect(seen.length).toBeGreaterThan(0);
      expect(seen.every((one) => one === undefined)).toBe(true);
    } finally {
      for (const server of [git, other]) {
        server.closeAllConnections();
        server.close();
      }
    }
  });

  it('S9: clones a repository to where Devin looks for it, once', async () => {
    await sh(
      `cd ${target.paths.volume} && git init -q src && cd src && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x && git update-server-info`,
    );
    const files = createServer((request, response) => {
      const path = join(
        target.paths.volume,
        'src',
        '.git',
        (request.url ?? '').split('?')[0]?.replace('/org/app.git', '') ?? '',
      );
      readFile(path).then(
        (body) => response.end(body),
        () => response.writeHead(404).end(),
      );
    });
    await new Promise<void>((resolve) => files.listen(0, '127.0.0.1', resolve));
    const address = files.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/org/app.git`;
    try {
      const remote = control({ repos: [url] });
      expect((await prepared(remote)).report.notes).toContain('cloned-app');
      expect((await prepared(remote)).report.notes).toContain('present-app');
      expect(
        (await sh(`git -C ${target.paths.volume}/repos/app config remote.origin.url`)).stdout.trim(),
      ).toBe(url);
    } finally {
      files.closeAllConnections();
      files.close();
    }
  });

  it('R8: keeps what the remote prints', async () => {
    await launched('a1');
    await sh(`echo hello >> ${target.paths.run}/session.log`);
    const lines: string[] = [];
    for await (const line of provider.logs(target.sandboxId, {}, new AbortController().signal))
      lines.push(line);
    expect(lines).toContain('hello');
  });
});

async function listenOn(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

describe('words and scripts', () => {
  it('T10: a real shell gives a quoted value back byte for byte', async () => {
    const values = fc
      .sample(fc.string({ unit: 'binary' }), 200)
      .filter((value) => !value.includes('\0') && value.isWellFormed());
    const nasty = ["'", '"', '$(touch x)', '`id`', '\n', '-n', ' ', '', '\\', "'\\''", '!', '*', '~'];
    for (const shell of ['sh', 'bash']) {
      const all = [...nasty, ...values];
      const script = all.map((value) => `printf '%s\\0' ${quote(value)}`).join('\n');
      const child = spawn(shell, ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
      const chunks: Buffer[] = [];
      child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
      await new Promise((resolve) => child.once('close', resolve));
      expect(Buffer.concat(chunks).toString().split('\0').slice(0, -1)).toEqual(all);
    }
    expect(() => quote('a\0b')).toThrow('NUL');
  });

  it('R2: nothing but the three answers is a probe', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), (rest) => {
        const words = ['gone', ...rest] as const;
        if (rest.length === 0) expect(parseProbe(words)).toEqual({ kind: 'gone' });
        else expect(() => parseProbe(words)).toThrow();
      }),
    );
    expect(() => parseProbe(['exited', 'a1', ''])).toThrow();
    expect(() => parseProbe(['running', 'a1', '7', 'x'])).toThrow();
    expect(() => parseProbe(['exited'])).toThrow();
  });
});
