import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { STATUS_VIEW } from '../../src/ops/view.ts';
import { dvo as run, MAIN, type Ended } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { hasTmux, Tmux } from '../support/tmux.ts';
import { until } from '../support/until.ts';

/** With STATE_DIR alone. */
async function dvo({ env, stateDir }: Stage, ...args: readonly string[]): Promise<Ended> {
  return await run({ PATH: env['PATH'], STATE_DIR: stateDir }, args);
}

describe('dvo status', () => {
  it('O5: shows sessions, slots and who waits, from the daemon; and from the index when none runs', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '1' } });
    await stage.serve('devin-a');
    stage.emulator.enqueue({ sessionId: 'devin-b' });
    const { mode } = await stat(join(stage.stateDir, 'ops.json'));
    expect(mode & 0o077).toBe(0);
    const told = await until(async () => {
      const view = STATUS_VIEW.parse(JSON.parse((await dvo(stage, 'status', '--json')).out));
      return view.waiting.length === 1 && view.sessions[0]?.stage === 'serving' && view;
    });
    expect(told).toMatchObject({ slots: { used: 1, max: 1 }, waiting: [{ sessionId: 'devin-b' }] });
    const table = await dvo(stage, 'status');
    expect(table.code).toBe(0);
    expect(table.out).toContain('slots 1 of 1');
    expect(table.out).toMatch(/devin-a +serving /);
    expect(table.out).toContain('admission open');
    expect(table.out).not.toContain('\u001b');
    await stage.daemon.end('SIGKILL');
    const left = await dvo(stage, 'status');
    expect(left.out).toContain('No daemon runs');
    expect(left.out).toMatch(/devin-a +serving /);
  });

  it('O5: says what to do where there is nothing to show', async () => {
    await using stage = await Stage.open();
    const { code, err } = await dvo(stage, 'status');
    expect(code).toBe(1);
    expect(err).toContain('STATE_DIR');
    expect(err).toContain('dvo run');
    expect((await dvo(stage, 'status', '--watch')).code).toBe(2);
  });

  it.skipIf(!hasTmux)('O5: --watch draws in place, what fits, and goes on while no daemon runs', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '1' } });
    await stage.serve('devin-a');
    const { PATH = '' } = stage.env;
    await using person = new Tmux({ PATH, STATE_DIR: stage.stateDir }, { columns: 100, rows: 12 });
    await person.line(`clear; '${process.execPath}' '${MAIN}' status --watch`);
    const shows = (what: RegExp): Promise<unknown> =>
      until(async () => what.test(await person.screen()), { what: String(what) });
    await shows(/^dvo outpost_[^]*devin-a +serving/);
    for (const at of Array.from({ length: 20 }, (_, nth) => nth))
      stage.emulator.enqueue({ sessionId: `devin-waits-${at}` });
    await shows(/^dvo outpost_[^]*more lines; dvo status has them all$/);
    await person.resize(40, 12);
    await until(async () => {
      const [head, totals] = (await person.screen()).split('\n');
      return head?.startsWith('dvo outpost_') === true && totals?.startsWith('slots 1 of 1') === true;
    });
    await person.resize(100, 12);
    await stage.daemon.end('SIGKILL');
    await shows(/No daemon runs/);
    await stage.start();
    await shows(/^dvo outpost_[^]*admission open/);
    await person.key('C-c');
    await shows(/here>$/);
  });
});
