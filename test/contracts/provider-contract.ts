/**
 * What any provider must do, with the awkward cases in it. Paths come from `info.paths` only; a sandbox has sh, bash and
 * coreutils. A power that a harness lacks skips its tests, visibly.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Call } from '../../src/lib/deadline.ts';
import type {
  AttachableProvider,
  AttachRequest,
  Attached,
  SandboxInfo,
} from '../../src/sandboxes/provider.ts';
import { until } from '../support/until.ts';

export interface ProviderHarness {
  readonly provider: AttachableProvider;
  /** Another provider object over the same world, as after a restart of the daemon. */
  restart(): Promise<AttachableProvider>;
  close(): Promise<void>;
  /** The next create takes effect and fails as `ambiguous`. */
  readonly makeNextCreateAmbiguous: () => void;
}

const call = (timeoutMs = 20_000): Call => ({ timeoutMs, signal: new AbortController().signal });

export function describeProviderContract(
  name: string,
  open: () => Promise<ProviderHarness>,
  powers: { readonly timedLogs: boolean },
): void {
  describe(`the provider contract: ${name}`, () => {
    let harness: ProviderHarness;
    let provider: AttachableProvider;

    beforeEach(async () => {
      harness = await open();
      provider = harness.provider;
    });

    afterEach(async () => {
      await harness.close();
    });

    async function running(
      tags: readonly string[],
      more: { readonly restoreFrom?: string } = {},
    ): Promise<SandboxInfo> {
      const { id } = await provider.create({ tags, ...more }, call());
      const info = await until(async () => {
        const seen = await provider.get(id, call());
        return seen.state === 'running' && seen;
      });
      // A sandbox may run a moment before its main process has made its folder.
      await until(async () => (await sh(info, `test -s ${info.paths.run}/boot-id`)).exitCode === 0);
      return info;
    }

    const sh = async (info: SandboxInfo, script: string, stdin?: string) =>
      await provider.exec(
        info.id,
        { argv: ['sh', '-c', script], ...(stdin === undefined ? {} : { stdin }) },
        call(),
      );

    it('S1: finds a sandbox by its tags, all of them, and only those', async () => {
      const one = await running(['dvo-a', 'dvo-outpost-x']);
      const two = await running(['dvo-b', 'dvo-outpost-x']);
      const found = async (...tags: string[]) =>
        (await provider.list({ tags, include: 'active' }, call())).map((info) => info.id).toSorted();
      await until(async () => (await found('dvo-outpost-x')).length === 2);
      expect(await found('dvo-outpost-x')).toEqual([one.id, two.id].toSorted());
      expect(await found('dvo-a', 'dvo-outpost-x')).toEqual([one.id]);
      expect(await found('dvo-a', 'dvo-b')).toEqual([]);
      expect(await found('dvo-c')).toEqual([]);
    });

    it('gives twenty creates at once twenty ids', async () => {
      const made = await Promise.all(
        Array.from({ length: 20 }, () => provider.create({ tags: ['dvo-many'] }, call())),
      );
      expect(new Set(made.map((info) => info.id)).size).toBe(20);
    });

    it('says not-found of what it does not know, and forgives deleting it', async () => {
      await expect(provider.get('no-such-id', call())).rejects.toMatchObject({ kind: 'not-found' });
      await expect(provider.exec('no-such-id', { argv: ['true'] }, call())).rejects.toMatchObject({
        kind: 'not-found',
      });
      await expect(provider.getSnapshot('no-such-id', call())).rejects.toMatchObject({ kind: 'not-found' });
      await provider.destroy('no-such-id', call());
      await provider.deleteSnapshot('no-such-id', call());
      expect(await provider.snapshots('no-such-id', call())).toEqual([]);
    });

    it('S5: destroys by id that one only; it is never reported running again, and stays findable as ended', async () => {
      const old = await running(['dvo-a']);
      const young = await running(['dvo-a']);
      await provider.destroy(old.id, call());
      await provider.destroy(old.id, call());
      const active = await provider.list({ tags: ['dvo-a'], include: 'active' }, call());
      expect(active.filter((info) => info.state === 'running').map((info) => info.id)).toEqual([young.id]);
      await until(async () => {
        const all = await provider.list({ tags: ['dvo-a'], include: 'all' }, call());
        return all.find((info) => info.id === old.id)?.state === 'ended';
      });
      await expect(sh(old, 'true')).rejects.toMatchObject({ kind: expect.stringMatching(/gone|not-found/) });
      expect((await sh(young, 'echo here')).stdout).toBe('here\n');
    });

    it('T10: passes arguments exactly', async () => {
      const info = await running(['dvo-a']);
      const words = ["it's", '"two"', '$(touch x)', '`id`', 'a\nb', '-n', ' lead', '', '雪☃', '\\'];
      const { stdout } = await provider.exec(info.id, { argv: ['printf', '%s\\0', ...words] }, call());
      expect(stdout.split('\0').slice(0, -1)).toEqual(words);
    });

    it('hands over standard input whole, and closes it', async () => {
      const info = await running(['dvo-a']);
      const input = 'line\n'.repeat(100_000);
      expect((await sh(info, 'wc -c', input)).stdout.trim()).toBe(String(input.length));
      expect((await sh(info, 'cat')).stdout).toBe('');
      expect((await sh(info, 'exec <&-; echo fine', input)).stdout).toBe('fine\n');
    });

    it('reports exit codes as results, and output that was cut', async () => {
      const info = await running(['dvo-a']);
      expect(await sh(info, 'echo out; echo err >&2; exit 3')).toMatchObject({
        exitCode: 3,
        stdout: 'out\n',
        stderr: 'err\n',
        truncated: false,
      });
      const flood = await sh(info, 'head -c 3000000 /dev/zero | tr "\\0" x');
      expect(flood.truncated).toBe(true);
    });

    it('R1: returns when the command is done, though a detached child lives on; also after a restart', async () => {
      const info = await running(['dvo-a']);
      const file = `${info.paths.run}/alive`;
      await sh(
        info,
        `mkdir -p ${info.paths.run}; setsid sh -c 'while :; do echo x >> ${file}; sleep 0.05; done' </dev/null >/dev/null 2>&1 &`,
      );
      const again = await harness.restart();
      const size = async (): Promise<number> => (await again.readFile(info.id, file, call())).byteLength;
      await until(async () => size().catch(() => false));
      const before = await size();
      await until(async () => (await size()) > before);
    });

    it('ends a call at its limit', async () => {
      const info = await running(['dvo-a']);
      await expect(provider.exec(info.id, { argv: ['sleep', '30'] }, call(200))).rejects.toMatchObject({
        code: 'deadline',
      });
    });

    it('does nothing when its signal has aborted already', async () => {
      const info = await running(['dvo-a']);
      const aborted = { timeoutMs: 5_000, signal: AbortSignal.abort() };
      const file = `${info.paths.volume}/must-not-be`;
      await expect(provider.exec(info.id, { argv: ['touch', file] }, aborted)).rejects.toMatchObject({
        code: 'aborted',
      });
      await expect(provider.create({ tags: ['dvo-never'] }, aborted)).rejects.toMatchObject({
        code: 'aborted',
      });
      await expect(provider.destroy(info.id, aborted)).rejects.toMatchObject({ code: 'aborted' });
      expect((await sh(info, `test -e ${file} || echo absent`)).stdout).toBe('absent\n');
      expect(await provider.list({ tags: ['dvo-never'], include: 'all' }, call())).toEqual([]);
    });

    it('writes and reads files, making what is missing on the way', async () => {
      const info = await running(['dvo-a']);
      const path = `${info.paths.volume}/deep/er/file`;
      await expect(provider.readFile(info.id, path, call())).rejects.toMatchObject({
        kind: 'not-found',
        reason: 'file',
      });
      await provider.writeFile(info.id, path, Buffer.from('one'), call());
      await provider.writeFile(info.id, path, Buffer.from('two'), call());
      expect(Buffer.from(await provider.readFile(info.id, path, call())).toString()).toBe('two');
    });

    /** A command with what it has said so far. */
    interface Talk {
      readonly with: Attached;
      out: string;
      err: string;
      readonly stop: AbortController;
    }

    async function talk(info: SandboxInfo, script: string, more: Partial<AttachRequest> = {}): Promise<Talk> {
      const stop = new AbortController();
      const heard = { out: '', err: '' };
      const sinks = {
        stdout: async (piece: Uint8Array) => void (heard.out += Buffer.from(piece).toString()),
        stderr: async (piece: Uint8Array) => void (heard.err += Buffer.from(piece).toString()),
      };
      const argv = ['sh', '-c', script];
      const attached = await provider.attach(info.id, { argv, ...more }, sinks, stop.signal);
      return Object.assign(heard, { with: attached, stop });
    }

    it('O7: carries a command’s streams while it runs, and its exit code', async () => {
      const info = await running(['dvo-a']);
      const cat = await talk(
        info,
        'echo hello; echo oops >&2; while read -r line; do echo "<$line>"; done; exit 7',
      );
      await until(() => cat.out.includes('hello\n') && cat.err.includes('oops\n'));
      await cat.with.write(Buffer.from('one\n'));
      await until(() => cat.out.includes('<one>\n'));
      await cat.with.write(Buffer.from('two\n'));
      await cat.with.end();
      expect(await cat.with.exited).toBe(7);
      expect(cat.out).toBe('hello\n<one>\n<two>\n');
      expect(cat.err).toBe('oops\n');
    });

    it('O7: carries much output whole, to a slow reader too, though the command leaves a child behind', async () => {
      const info = await running(['dvo-a']);
      let bytes = 0;
      const slow = async (piece: Uint8Array): Promise<void> => {
        await new Promise((resolve) => setImmediate(resolve));
        bytes += piece.byteLength;
      };
      const script = 'sleep 3 & head -c 3000000 /dev/zero | tr "\\0" x';
      const argv = ['sh', '-c', script];
      const signal = new AbortController().signal;
      const attached = await provider.attach(info.id, { argv }, { stdout: slow, stderr: slow }, signal);
      await attached.end();
      expect(await attached.exited).toBe(0);
      expect(bytes).toBe(3_000_000);
    });

    it('O7: ends the command when the person leaves', async () => {
      const info = await running(['dvo-a']);
      const file = `${info.paths.run}/ticks`;
      const ticking = await talk(info, `while :; do echo x >>${file}; sleep 0.05; done`);
      await until(async () => (await sh(info, `test -s ${file}`)).exitCode === 0);
      ticking.stop.abort();
      await expect(ticking.with.exited).rejects.toMatchObject({ code: 'aborted' });
      const size = async (): Promise<string> => (await sh(info, `wc -c <${file}`)).stdout;
      let last = '';
      await until(async () => {
        const now = await size();
        const same = now === last;
        last = now;
        await new Promise((resolve) => setTimeout(resolve, 200));
        return same;
      });
    });

    it('O7: puts a terminal under a command, of the person’s size, also when it changes', async () => {
      const info = await running(['dvo-a']);
      const terminal = { columns: 91, rows: 31 };
      const shell = await talk(
        info,
        `test -t 0 && test -t 1 && stty size; while read -r line; do stty size; test "$line" = end && exit 3; done`,
        { terminal },
      );
      await until(() => shell.out.includes('31 91'));
      await shell.with.resize({ columns: 55, rows: 22 });
      await until(async () => {
        // A platform may take a moment for it.
        await shell.with.write(Buffer.from('more\n'));
        return shell.out.includes('22 55');
      });
      await shell.with.write(Buffer.from('end\n'));
      expect(await shell.with.exited).toBe(3);
    });

    it('O7: interrupts a command on its terminal as a person does', async () => {
      const info = await running(['dvo-a']);
      const shell = await talk(
        info,
        `trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done`,
        {
          terminal: { columns: 80, rows: 24 },
        },
      );
      await until(() => shell.out.includes('ready'));
      await shell.with.write(Buffer.from('\u0003'));
      expect(await shell.with.exited).toBe(5);
      expect(shell.out).toContain('caught');
    });

    it('O7: says what it cannot go into', async () => {
      const sinks = { stdout: async () => undefined, stderr: async () => undefined };
      const signal = new AbortController().signal;
      const gone = async (): Promise<number> =>
        await (
          await provider.attach('no-such-id', { argv: ['true'] }, sinks, signal)
        ).exited;
      await expect(gone()).rejects.toMatchObject({ kind: 'not-found' });
      const info = await running(['dvo-a']);
      const odd = await talk(info, 'exec /no/such/command');
      await odd.with.end();
      expect(await odd.with.exited).toBe(127);
    });

    it('O7: downloads a large file bit for bit, and says when there is none', async () => {
      const info = await running(['dvo-a']);
      const folder = await mkdtemp(join(tmpdir(), 'dvo-download-'));
      const there = `${info.paths.volume}/big`;
      await sh(info, `head -c 9000000 /dev/urandom >${there}`);
      await provider.download(info.id, there, join(folder, 'big'), call(60_000));
      const sum = createHash('sha256')
        .update(await readFile(join(folder, 'big')))
        .digest('hex');
      expect((await sh(info, `sha256sum <${there}`)).stdout.slice(0, 64)).toBe(sum);
      const missing = provider.download(info.id, `${there}-not`, join(folder, 'none'), call());
      await expect(missing).rejects.toMatchObject({ kind: 'not-found', reason: 'file' });
      await rm(folder, { recursive: true });
    });

    it('R7: uploads a large file bit for bit', async () => {
      const info = await running(['dvo-a']);
      const folder = await mkdtemp(join(tmpdir(), 'dvo-upload-'));
      const content = Buffer.alloc(20_000_000, 'dvo!');
      await writeFile(join(folder, 'big'), content);
      await provider.upload(info.id, join(folder, 'big'), `${info.paths.volume}/in/big`, call(60_000));
      const { stdout } = await sh(
        info,
        `wc -c < ${info.paths.volume}/in/big; tail -c 4 ${info.paths.volume}/in/big`,
      );
      expect(stdout.replaceAll(/\s/g, '')).toBe('20000000dvo!');
      await rm(folder, { recursive: true });
    });

    it('L2: an archive outlives its sandbox and brings everything back: bytes, modes, links, odd names', async () => {
      const info = await running(['dvo-a']);
      const { volume } = info.paths;
      await sh(
        info,
        `cd ${volume}; echo hi > file; chmod 750 file; ln -s file link; mkdir empty; echo odd > 'a b
c'; : > .hidden`,
      );
      const made = await provider.snapshot(info.id, call());
      expect(made).toMatchObject({ state: 'ready', sourceSandboxId: info.id });
      expect((await provider.snapshots(info.id, call())).map((one) => one.id)).toEqual([made.id]);
      await provider.destroy(info.id, call());
      expect(await provider.getSnapshot(made.id, call())).toMatchObject({ state: 'ready' });
      const back = await running(['dvo-a'], { restoreFrom: made.id });
      const seen = await sh(
        back,
        `cd ${back.paths.volume}; cat link; stat -c %a file; test -d empty -a -e .hidden && cat a*`,
      );
      expect(seen.stdout).toBe('hi\n750\nodd\n');
      await provider.deleteSnapshot(made.id, call());
      await expect(provider.getSnapshot(made.id, call())).rejects.toMatchObject({
        kind: 'not-found',
        reason: 'snapshot',
      });
    });

    it('S4: a restore of an archive that is gone fails as such, and leaves no sandbox', async () => {
      const info = await running(['dvo-a']);
      const made = await provider.snapshot(info.id, call());
      await provider.deleteSnapshot(made.id, call());
      const create = provider.create({ tags: ['dvo-b'], restoreFrom: made.id }, call());
      await expect(create).rejects.toMatchObject({ kind: 'not-found', reason: expect.any(String) });
      expect(await provider.list({ tags: ['dvo-b'], include: 'active' }, call())).toEqual([]);
    });

    it('only what lies in the volume is archived', async () => {
      const info = await running(['dvo-a']);
      await sh(info, `echo x > ${info.paths.run}/outside; echo y > ${info.paths.volume}/inside`);
      const made = await provider.snapshot(info.id, call());
      const back = await running(['dvo-b'], { restoreFrom: made.id });
      const { stdout } = await sh(
        back,
        `cat ${back.paths.volume}/inside; test -e ${back.paths.run}/outside || echo gone`,
      );
      expect(stdout).toBe('y\ngone\n');
    });

    it('R4: tells one container from the next by a boot marker outside the volume', async () => {
      const one = await running(['dvo-a']);
      const two = await running(['dvo-a']);
      const boot = async (info: SandboxInfo) => (await sh(info, `cat ${info.paths.run}/boot-id`)).stdout;
      expect((await boot(one)).trim()).not.toBe('');
      expect(await boot(one)).not.toBe(await boot(two));
    });

    it('R8: gives the log from its end, and follows it', async () => {
      const info = await running(['dvo-a']);
      const log = `${info.paths.run}/session.log`;
      await sh(info, `printf 'one\\ntwo\\nthree\\n' >> ${log}`);
      const stop = new AbortController();
      const whole = async (): Promise<number> => {
        let count = 0;
        for await (const line of provider.logs(info.id, {}, stop.signal)) count += line === '' ? 0 : 1;
        return count;
      };
      // A platform may take a moment to repeat what was written.
      await until(async () => (await whole()) === 3);
      const lines: string[] = [];
      const reading = (async () => {
        for await (const line of provider.logs(info.id, { tailLines: 2, follow: true }, stop.signal))
          lines.push(line);
      })();
      await until(() => lines.length === 2);
      await sh(info, `echo four >> ${log}`);
      await until(() => lines.length === 3);
      expect(lines).toEqual(['two', 'three', 'four']);
      stop.abort();
      await reading.catch(() => undefined);
    });

    it(`gives the log from a time on, ${powers.timedLogs ? 'to the line' : 'or says that it cannot'}`, async () => {
      const info = await running(['dvo-a']);
      const log = `${info.paths.run}/session.log`;
      const { signal } = new AbortController();
      const read = async (since?: number): Promise<readonly string[]> => {
        const lines: string[] = [];
        for await (const line of provider.logs(info.id, since === undefined ? {} : { since }, signal))
          lines.push(line);
        return lines;
      };
      await sh(info, `echo before >> ${log}`);
      await until(async () => (await read()).includes('before'));
      const then = Date.now() + 1;
      if (!powers.timedLogs) {
        await expect(read(then)).rejects.toMatchObject({ kind: 'unsupported' });
        return;
      }
      await until(async () => Date.now() > then);
      await sh(info, `echo after >> ${log}`);
      await until(async () => (await read()).includes('after'));
      expect(await read(then)).toEqual(['after']);
    });

    it('D1: a provider made anew sees the sandboxes, archives and tags of the old one', async () => {
      const info = await running(['dvo-a']);
      await provider.writeFile(info.id, `${info.paths.volume}/file`, Buffer.from('kept'), call());
      const made = await provider.snapshot(info.id, call());
      const again = await harness.restart();
      expect((await again.list({ tags: ['dvo-a'], include: 'active' }, call())).map((one) => one.id)).toEqual(
        [info.id],
      );
      expect(Buffer.from(await again.readFile(info.id, `${info.paths.volume}/file`, call())).toString()).toBe(
        'kept',
      );
      expect(await again.getSnapshot(made.id, call())).toMatchObject({ state: 'ready' });
    });

    it('P1: a create that fails ambiguously is found by its tag', async () => {
      harness.makeNextCreateAmbiguous();
      await expect(provider.create({ tags: ['dvo-a'] }, call())).rejects.toMatchObject({ kind: 'ambiguous' });
      await until(
        async () => (await provider.list({ tags: ['dvo-a'], include: 'active' }, call())).length === 1,
      );
    });
  });
}
