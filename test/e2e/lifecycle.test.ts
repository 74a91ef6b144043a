import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

/** Log lines at which the daemon is killed, and what drives it there. */
const MOMENTS = [
  'session claimed',
  'sandbox created',
  'sandbox prepared',
  'remote launched',
  'taking the session down',
  'archive asked for',
  'archive ready',
  'sandbox destroyed',
  'session asleep',
  'deleting everything of the session',
] as const;

describe('a session from end to end', () => {
  it.each(MOMENTS)('P2, D1: survives kill -9 of the daemon at "%s"', async (moment) => {
    await using stage = await Stage.start();
    const { emulator, facts } = stage;
    const killAt = async (): Promise<void> => {
      await until(async () => (await stage.count(moment)) > 0, { what: moment });
      await stage.daemon.end('SIGKILL');
      await stage.start();
    };
    const waking = MOMENTS.indexOf(moment) < 4 ? killAt() : undefined;
    await stage.serve('devin-a');
    await waking;
    expect(await facts.sandboxes('devin-a')).toHaveLength(1);
    await stage.connected('devin-a');
    await stage.run('devin-a', 'echo kept > file');
    const sleeping =
      moment !== 'deleting everything of the session' && waking === undefined ? killAt() : undefined;
    emulator.sleep('devin-a');
    await sleeping;
    await stage.asleep('devin-a');
    expect(await facts.sandboxes()).toHaveLength(0);
    emulator.wake('devin-a');
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
    const ending = moment === 'deleting everything of the session' ? killAt() : undefined;
    emulator.terminate('devin-a');
    await ending;
    await stage.empty();
    expect(emulator.state().violations).toEqual([]);
  });

  it('D1: reattaches to the same remote after a restart, with the index', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    await stage.daemon.end('SIGKILL');
    await stage.start();
    stage.emulator.expire('devin-a');
    await until(() => stage.facts.session('devin-a')?.phase === 'claimed', { what: 'claimed again' });
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    expect(await stage.facts.sandboxes()).toHaveLength(1);
  });

  it('L7: with SUSPEND_MODE=discard, keeps nothing of a session that sleeps, and the work of one that is drained', async () => {
    await using stage = await Stage.start({ env: { SUSPEND_MODE: 'discard', SHUTDOWN_MODE: 'drain' } });
    await stage.serve('devin-a');
    await stage.run('devin-a', 'echo gone > file');
    stage.emulator.sleep('devin-a');
    await stage.empty();
    stage.emulator.wake('devin-a');
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'ls')).not.toContain('file');
    await stage.run('devin-a', 'echo kept > file');
    await stage.daemon.end('SIGTERM');
    expect(await stage.facts.sandboxes()).toEqual([]);
    await stage.start();
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
  });

  it('D1, T2: reattaches to the same remote when the index is lost', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    await stage.daemon.end('SIGKILL');
    await rm(join(stage.stateDir, 'sandbox_index.json'));
    await stage.start();
    await until(async () => (await stage.facts.stage('devin-a')) === 'serving');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    expect(await stage.facts.sandboxes()).toHaveLength(1);
    stage.emulator.terminate('devin-a');
    await stage.empty();
  });

  it('D1: a session that fell asleep while the index was lost wakes with its files', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    await stage.run('devin-a', 'echo kept > file');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    await stage.daemon.end('SIGKILL');
    await rm(join(stage.stateDir, 'sandbox_index.json'));
    await stage.start();
    stage.emulator.wake('devin-a');
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
  });

  it('T2: sets a damaged index aside, keeps its bytes, and destroys nothing', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    await stage.daemon.end('SIGKILL');
    await writeFile(join(stage.stateDir, 'sandbox_index.json'), '{"version":1,"sess');
    await stage.start();
    await until(async () => (await stage.facts.stage('devin-a')) === 'serving');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    const [line] = await stage.lines('index damaged: set aside, rebuilding from queue, tags and markers');
    expect(await readFile(String(line?.['keptAs']), 'utf8')).toBe('{"version":1,"sess');
  });

  it('S1: a terminate that comes during a suspend leaves nothing', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await until(async () => (await stage.count('taking the session down')) > 0);
    stage.emulator.enqueue({ sessionId: 'devin-a', status: 'terminated' });
    await stage.empty();
  });

  it('S5: a session that wakes during its own suspension is resumed after it, in another sandbox', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    await stage.run('devin-a', 'echo kept > file');
    const [old] = await stage.facts.sandboxes('devin-a');
    stage.emulator.sleep('devin-a');
    await until(async () => (await stage.count('taking the session down')) > 0);
    stage.emulator.wake('devin-a');
    await until(async () => (await stage.count('remote launched')) === 2, { what: 'served again' });
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
    const now = await stage.facts.sandboxes('devin-a');
    expect(now).toHaveLength(1);
    expect(now[0]).not.toBe(old);
  });

  it('S4: starts empty, and says so, when the archive is gone', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    for (const file of await stage.facts.archives()) {
      await rm(join(stage.stateDir, 'local', 'snapshots', file.replace('.tar', '.json')));
    }
    stage.emulator.wake('devin-a');
    await stage.connected('devin-a');
    expect(await stage.count('archive cannot be restored: the session starts with an empty workspace')).toBe(
      1,
    );
    expect(await stage.facts.sandboxes()).toHaveLength(1);
  });

  it('L2: a resumed session gets the build that is the latest now', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    const sha = stage.emulator.distribution.publish('second');
    stage.emulator.enqueue({ sessionId: 'devin-a', kind: 'resume', remoteSha: sha });
    await stage.connected('devin-a');
    const prepared = await stage.lines('sandbox prepared');
    expect(prepared.at(-1)).toMatchObject({ sha, downloaded: true });
  });

  it('L5: a flash of suspended does not disturb a running session', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    stage.emulator.flash('devin-a', 400);
    await until(() => stage.facts.session('devin-a')?.status === 'running');
    expect(await stage.run('devin-a', 'echo here')).toBe('here\n');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    expect(await stage.count('taking the session down')).toBe(0);
  });

  it('R6: relaunches a remote that crashes, with its files in place, and counts it', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    await stage.run('devin-a', 'echo kept > file');
    stage.emulator.crashRemote('devin-a', 3);
    await until(() => {
      const now = stage.facts.remotePid('devin-a');
      return now !== undefined && now !== pid;
    });
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
    expect(await stage.metric('dvo_remote_restarts_total')).toBe(1);
    const { sessions } = JSON.parse((await stage.ops('/api/status')).text);
    expect(sessions).toMatchObject([
      {
        lastError: {
          step: 'remote',
          message: 'it ended with exit code 3',
          hint: expect.stringContaining('dvo logs'),
        },
      },
    ]);
    expect(sessions[0].events).toContainEqual(
      expect.objectContaining({ what: 'remote ended', detail: 'it ended with exit code 3' }),
    );
  });

  it('P3: gives a poison session up for a while; the others are served', async () => {
    await using stage = await Stage.start({ env: { REMOTE_RESTART_LIMIT: '1' } });
    stage.emulator.enqueue({ sessionId: 'devin-poison' });
    const crashing = setInterval(() => stage.emulator.crashRemote('devin-poison', 1), 50);
    try {
      await until(async () => (await stage.count('session given up for now')) === 1);
    } finally {
      clearInterval(crashing);
    }
    const [givenUp] = await stage.lines('session given up for now');
    expect(givenUp).toMatchObject({ reason: 'remote: it ended with exit code 1' });
    await until(() => stage.facts.session('devin-poison')?.phase === 'pending');
    await until(async () => (await stage.metric('dvo_refused_total{reason="cooling-down"}')) === 1);
    for (let other = 0; other < 5; other += 1) stage.emulator.enqueue({ sessionId: `devin-${other}` });
    for (let other = 0; other < 5; other += 1) await stage.connected(`devin-${other}`);
  });
});
