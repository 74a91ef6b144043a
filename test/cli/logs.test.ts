import { spawn } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { amountOf } from '../../src/cli/logs/amount.ts';
import { dvo, MAIN } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

/** A command that goes on until it ends by itself or is killed. */
function running(stage: Stage, ...args: readonly string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...stage.env } });
  const said = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (said.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said.err += chunk.toString()));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { said, ended, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

describe('dvo logs', () => {
  it('O6: shows a session’s log, and follows it past sleep, wake and a daemon that was killed', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.run('devin-anna', 'echo before');
    expect((await dvo(stage.env, ['logs', 'devin-a'])).out).toContain('before\n');
    expect((await dvo(stage.env, ['logs', 'devin-a', '--tail', '0'])).out).toBe('');
    expect((await dvo(stage.env, ['logs', 'devin-a', '--tail', '1'])).out).toMatch(/^.+\n$/);
    using follower = running(stage, 'logs', 'devin-anna', '-f');
    const { said } = follower;
    await until(() => said.out.includes('before\n'));
    stage.emulator.sleep('devin-anna');
    await stage.asleep('devin-anna');
    await until(() => /asleep since .*: waiting/.test(said.err));
    await stage.daemon.end('SIGKILL');
    stage.emulator.wake('devin-anna');
    await stage.start();
    await stage.connected('devin-anna');
    await stage.run('devin-anna', 'echo after');
    await until(() => said.out.includes('after\n'));
    stage.emulator.terminate('devin-anna');
    expect(await follower.ended).toBe(0);
    expect(said.err).toContain('the session is over');
    expect(said.out.match(/^before$/gm)).toHaveLength(1);
  });

  it('O6: says what to do about a name that is none, and lists who has a log', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const wrong = await dvo(stage.env, ['logs', 'nobody']);
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain('dvo status');
    expect((await dvo(stage.env, ['logs', 'devin-anna', '--tail', 'x'])).code).toBe(2);
    expect((await dvo(stage.env, ['logs'])).out).toMatch(/^devin-anna {2}serving {2}local-/);
    const [row] = JSON.parse((await dvo(stage.env, ['logs', '--json'])).out);
    expect(row).toMatchObject({ sessionId: 'devin-anna', stage: 'serving' });
    const since = await dvo(stage.env, ['logs', 'devin-anna', '--since', '10m']);
    expect(since).toMatchObject({ code: 1, err: expect.stringContaining('keep no times') });
  });

  it('O6: shows the daemon’s own log, and follows it into the next daemon', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const whole = await dvo(stage.env, ['logs', '--daemon']);
    expect((await stage.printed()).startsWith(whole.out)).toBe(true);
    expect(whole.out).toContain('"msg":"started"');
    const last = await dvo(stage.env, ['logs', '--daemon', '--tail', '1']);
    expect(last.out.trim().split('\n')).toHaveLength(1);
    expect((await dvo(stage.env, ['logs', '--daemon', '--since', '2100-01-01'])).out).toBe('');
    using follower = running(stage, 'logs', '--daemon', '-f');
    const { said } = follower;
    const started = (): number => said.out.match(/"msg":"started"/g)?.length ?? 0;
    await until(() => started() === 1);
    await stage.daemon.end('SIGKILL');
    await until(() => said.err.includes('no daemon runs: waiting'));
    const none = await dvo(stage.env, ['logs', '--daemon']);
    expect(none).toMatchObject({ code: 1, err: expect.stringContaining('no daemon runs') });
    await stage.start();
    await until(() => started() === 2);
    expect(said.out.match(/"msg":"started"/g)).toHaveLength(2);
  });

  it('O6: shows the daemon’s own log to nobody without the control token', async () => {
    await using stage = await Stage.start();
    expect((await stage.ops('/api/log')).status).toBe(403);
  });
});

describe('how much of a log', () => {
  const now = Date.UTC(2026, 0, 2);

  it('is said in lines, in a time ago, or from a moment on', () => {
    expect(amountOf({ tail: '100', since: '90s' }, now)).toEqual({ tailLines: 100, since: now - 90_000 });
    expect(amountOf({ since: '2h' }, now)).toEqual({ since: now - 7_200_000 });
    expect(amountOf({ since: '2026-01-01T00:00:00Z' }, now)).toEqual({ since: now - 86_400_000 });
    expect(amountOf({}, now)).toEqual({});
  });

  it.each(['ten minutes', '10', '-5m', '10 m', ''])(
    'refuses the time %j, and says what is right',
    (since) => {
      expect(() => amountOf({ since }, now)).toThrow(/10m/);
    },
  );
});
