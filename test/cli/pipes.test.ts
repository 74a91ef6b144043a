import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dvo, MAIN } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

function running(env: Readonly<Record<string, string | undefined>>, ...args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...env } });
  const said = { out: '', err: '' };
  child.stdout.on('data', (piece: Buffer) => (said.out += piece.toString()));
  child.stderr.on('data', (piece: Buffer) => (said.err += piece.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, said, ended, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

describe('a reader that goes', () => {
  it('leaves the daemon at work, with its log in memory, and it stops when asked', async () => {
    await using stage = await Stage.open();
    using daemon = running(stage.env, 'run');
    await until(() => daemon.said.out.includes('"msg":"started"'));
    daemon.child.stdout.destroy();
    daemon.child.stderr.destroy();
    await stage.serve('devin-anna');
    const { out } = await dvo(stage.env, ['logs', '--daemon']);
    expect(out.match(/log not written/g)).toHaveLength(1);
    expect(out).toContain('remote launched');
    expect(out).not.toContain('fatal error');
    daemon.child.kill('SIGTERM');
    expect(await daemon.ended).toBe(0);
  });

  it.each([[['completion', 'bash']], [['emulator']]])(
    'ends any other command without a word: %s',
    async (args) => {
      using command = running({ PATH: process.env['PATH'] }, ...args);
      command.child.stdout.destroy();
      expect(await command.ended).toBe(141);
      expect(command.said.err).toBe('');
    },
  );
});

describe('an output that cannot be written', () => {
  it('is no success, and says why', async () => {
    const full = openSync('/dev/full', 'w');
    const command = spawn(process.execPath, [MAIN, 'completion', 'bash'], {
      stdio: ['ignore', full, 'pipe'],
    });
    let err = '';
    command.stderr?.on('data', (piece: Buffer) => (err += piece.toString()));
    const code = await new Promise((resolve) => command.once('close', resolve));
    closeSync(full);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^dvo: the output cannot be written: ENOSPC.*\n$/),
    ]);
  });
});

describe('a fault of the daemon', () => {
  it('ends it, told once however many follow', async () => {
    await using stage = await Stage.open();
    const faulty = `process.once('SIGUSR2', () => { for (const at of [1, 2, 3]) setImmediate(() => { throw new Error('bug ' + at); }); });`;
    await stage.start({ NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(faulty)}` });
    process.kill(stage.daemon.pid ?? 0, 'SIGUSR2');
    expect(await stage.daemon.exited()).toBe(1);
    expect(await stage.lines('fatal error')).toMatchObject([{ error: 'bug 1' }]);
  });
});
