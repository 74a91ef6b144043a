import { spawn } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { dvo, MAIN } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

/** The command that a person is to give to Devin, once `told` times were told something. */
function command(err: string): string {
  return /Run exactly this, then wait for me: (.*)\n/g.exec(err.slice(err.lastIndexOf('→')))?.[1] ?? '';
}

describe('dvo doctor --smoke', () => {
  it.each([
    ['snapshot', /in [^]*volume[^]*archive [^]*wakes with its file[^]*same remote[^]*no archive/],
    ['discard', /in [^]*volume[^]*nothing of it is kept[^]*empty workspace[^]*same remote[^]*no archive/],
  ])('O3: follows a live session through its life (%s), telling a person what to do', async (mode, life) => {
    await using stage = await Stage.start({ env: { SUSPEND_MODE: mode } });
    await stage.serve('devin-someone-else');
    const child = spawn(process.execPath, [MAIN, 'doctor', '--smoke'], { env: { ...stage.env } });
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const told = (what: string): Promise<unknown> =>
      until(() => err.slice(err.lastIndexOf('→')).includes(what), { what });
    try {
      await told('start a session');
      await stage.serve('devin-smoke');
      await stage.run('devin-smoke', command(err));
      await told('put the session to sleep');
      stage.emulator.sleep('devin-smoke');
      await told('cat dvo-smoke-');
      stage.emulator.wake('devin-smoke');
      await stage.connected('devin-smoke');
      await stage.run('devin-smoke', command(err));
      await told('Start the daemon again');
      await stage.daemon.end('SIGKILL');
      await stage.start();
      await told('terminate the session');
      stage.emulator.terminate('devin-smoke');
      expect(await ended).toBe(0);
      const ticked = out
        .match(/^✔ .*$/gm)
        ?.slice(-7)
        .join('\n');
      expect(ticked).toMatch(/admits sessions[^]*devin-smoke in /);
      expect(ticked).toMatch(life);
      expect(out).toContain('All is well');
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('O3: says that it needs a daemon, and looks no further; the token need not list outposts', async () => {
    await using stage = await Stage.open();
    stage.emulator.fault({ route: 'outposts', kind: 'status', status: 403, count: 0 });
    const { code, out } = await dvo(stage.env, ['doctor', '--smoke', '--json']);
    expect(code).toBe(1);
    const smoke = JSON.parse(out).checks.filter(({ id }: { readonly id: string }) => id.startsWith('smoke-'));
    expect(smoke[0]).toMatchObject({ state: 'fail', cause: 'no daemon runs on STATE_DIR' });
    expect(smoke.slice(1).every(({ state }: { readonly state: string }) => state === 'skip')).toBe(true);
  });
});
