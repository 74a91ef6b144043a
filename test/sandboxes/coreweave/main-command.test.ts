import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { appendFile, mkdtemp, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mainCommand } from '../../../src/sandboxes/coreweave/main-command.ts';
import { until } from '../../support/until.ts';

const shells = ['dash', 'bash'].filter((shell) => spawnSync('which', [shell]).status === 0);
const namespaces =
  spawnSync('unshare', ['--user', '--map-root-user', '--pid', '--fork', '--mount-proc', 'true']).status === 0;

describe.each(shells)('the sandbox’s main process under %s', (shell) => {
  let run: string;
  let child: ChildProcess;
  let output = '';

  const start = async (...before: readonly string[]): Promise<string> => {
    const [, ...script] = mainCommand({ volume: join(run, 'volume'), run: join(run, 'dvo') });
    const [file = '', ...args] = [...before, shell, ...script];
    child = spawn(file, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    output = '';
    child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const id = await until(
      async () => (await readFile(join(run, 'dvo/boot-id'), 'utf8').catch(() => '')) || undefined,
    );
    await until(
      async () => (await readFile(join(run, 'dvo/session.log'), 'utf8').catch(() => undefined)) !== undefined,
    );
    return id;
  };

  const stop = async (): Promise<number | null> => {
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    return await ended;
  };

  beforeEach(async () => {
    run = await mkdtemp(join(tmpdir(), 'dvo-main-'));
  });

  afterEach(async () => {
    // Its own process group: nothing of it stays, however the test ended.
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, 'SIGKILL');
    await rm(run, { recursive: true, force: true });
  });

  it('R4: marks each boot anew, and ends with 0 on TERM, so that the platform does not start it again', async () => {
    const first = await start();
    expect(first.trim()).toMatch(/^[0-9a-f-]{36}$/);
    expect(await stop()).toBe(0);
    await rm(join(run, 'dvo/boot-id'));
    expect(await start()).not.toBe(first);
    expect(await stop()).toBe(0);
  });

  it('R8: repeats the session’s log, also when it is cut short or replaced', async () => {
    await start();
    const log = join(run, 'dvo/session.log');
    // Longer than what follows: a file that has grown back to its old size looks untouched to whoever follows it.
    const long = `${'one'.repeat(100)}\n`;
    await appendFile(log, long);
    await until(() => output.includes('one\n'));
    await truncate(log, 0);
    await appendFile(log, 'two\n');
    await until(() => output.includes('two\n'));
    await rename(log, `${log}.1`);
    await writeFile(log, 'three\n');
    await until(() => output.includes('three\n'));
    expect(output).toBe(`${long}two\nthree\n`);
    await stop();
  });

  it.skipIf(!namespaces)('R3: reaps what is orphaned when it is process 1', async () => {
    await start('unshare', '--user', '--map-root-user', '--pid', '--fork', '--kill-child', '--mount-proc');
    const inner = await until(() => {
      const found = spawnSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' }).stdout.trim();
      return found !== '' && found;
    });
    const inside = (script: string) =>
      spawnSync(
        'nsenter',
        ['--target', inner, '--user', '--preserve-credentials', '--pid', '--mount', 'sh', '-c', script],
        {
          encoding: 'utf8',
        },
      ).stdout;
    const pids = join(run, 'pids');
    inside(
      `setsid sh -c 'sh -c "echo \\$\\$ >> ${pids}" & sh -c "echo \\$\\$ >> ${pids}" & exit' </dev/null >/dev/null 2>&1 &`,
    );
    const orphans = await until(async () => {
      const lines = (await readFile(pids, 'utf8').catch(() => '')).trim().split('\n');
      return lines.length === 2 && lines;
    });
    // What is dead and not reaped stays in the process table.
    for (const pid of orphans) await until(() => inside(`test -e /proc/${pid} || echo gone`) === 'gone\n');
    process.kill(Number(inner), 'SIGTERM');
    await new Promise((resolve) => child.once('exit', resolve));
    expect(child.exitCode).toBe(0);
  });

  it('says what is wrong when it may not write where it has to', () => {
    const [, ...script] = mainCommand({ volume: '/x', run: '/proc/nowhere/dvo' });
    const result = spawnSync(shell, script, { encoding: 'utf8' });
    expect(result.status).toBe(1);
    expect(result.stdout).toContain('has to run as root');
  });
});
