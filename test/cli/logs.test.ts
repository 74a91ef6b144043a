import { execFile, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

describe('dvo logs', () => {
  it('O6: shows a session’s log, and follows it past sleep and wake until the session is over', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.run('devin-anna', 'echo before');
    const shown = await new Promise<string>((resolve) => {
      execFile(process.execPath, [MAIN, 'logs', 'devin-a'], { env: { ...stage.env } }, (_, out) =>
        resolve(out),
      );
    });
    expect(shown).toContain('before\n');
    const follower = spawn(process.execPath, [MAIN, 'logs', 'devin-anna', '-f'], { env: { ...stage.env } });
    let out = '';
    let err = '';
    follower.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    follower.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    const ended = new Promise<number | null>((resolve) => follower.once('exit', resolve));
    try {
      await until(() => out.includes('before\n'));
      stage.emulator.sleep('devin-anna');
      await stage.asleep('devin-anna');
      await until(() => /asleep since .*: waiting/.test(err));
      stage.emulator.wake('devin-anna');
      await stage.connected('devin-anna');
      await stage.run('devin-anna', 'echo after');
      await until(() => out.includes('after\n'));
      stage.emulator.terminate('devin-anna');
      expect(await ended).toBe(0);
      expect(err).toContain('the session is over');
      expect(out.match(/^before$/gm)).toHaveLength(1);
    } finally {
      follower.kill('SIGKILL');
    }
  });

  it('O6: says what to do about a name that is none, and lists who has a log', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const dvo = (...args: readonly string[]) =>
      new Promise<{ readonly code: number; readonly out: string; readonly err: string }>((resolve) => {
        execFile(process.execPath, [MAIN, ...args], { env: { ...stage.env } }, (error, out, err) =>
          resolve({ code: error === null ? 0 : Number(error.code), out, err }),
        );
      });
    const wrong = await dvo('logs', 'nobody');
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain('dvo status');
    expect((await dvo('logs', 'devin-anna', '--tail', 'x')).code).toBe(2);
    expect((await dvo('logs')).out).toMatch(/^devin-anna {2}serving {2}local-/);
  });
});
