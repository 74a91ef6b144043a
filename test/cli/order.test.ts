import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { STATUS_VIEW, type StatusView } from '../../src/ops/view.ts';
import { dvo } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

async function statusOf(stage: Stage): Promise<StatusView> {
  return STATUS_VIEW.parse(JSON.parse((await dvo(stage.env, ['status', '--json'])).out));
}

async function control(stage: Stage): Promise<{ readonly url: string; readonly control: string }> {
  return JSON.parse(await readFile(join(stage.stateDir, 'ops.json'), 'utf8'));
}

async function post(url: string, body: string, bearer?: string): Promise<number> {
  const headers = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
  return (await fetch(`${url}/api/orders`, { method: 'POST', body, headers })).status;
}

describe('dvo suspend, release and terminate, with a daemon', () => {
  it('O8: puts a session to sleep that Devin still wants, keeps its work, and leaves it alone', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.run('devin-anna', 'echo precious > work.txt');
    const asked = await dvo(stage.env, ['suspend', 'devin-anna']);
    expect(asked).toMatchObject({ code: 2, out: '' });
    expect(asked.err).toContain('--yes');
    const done = await dvo(stage.env, ['suspend', 'devin-a', '--yes']);
    expect(done.err).toContain('archive ready');
    expect(done).toMatchObject({ code: 0, out: expect.stringMatching(/devin-anna: asleep; .*archive/) });
    expect(await stage.facts.sandboxes()).toEqual([]);
    expect(await stage.facts.archives()).toHaveLength(1);
    const view = await until(async () => {
      const now = await statusOf(stage);
      return now.waiting.length === 1 && now;
    });
    expect(view.waiting[0]).toMatchObject({ sessionId: 'devin-anna', reason: 'by-hand' });
    expect(view.sessions).toMatchObject([{ stage: 'suspended' }]);
    expect((await dvo(stage.env, ['suspend', 'devin-anna', '-y'])).out).toContain('asleep');
  });

  it('O8: hands a session over to another daemon, with its work in an archive whatever SUSPEND_MODE says', async () => {
    await using first = await Stage.start({ env: { SUSPEND_MODE: 'keep' } });
    await first.serve('devin-anna');
    await first.run('devin-anna', 'echo precious > work.txt');
    expect((await dvo(first.env, ['release', 'devin-anna', '--yes'])).code).toBe(0);
    expect(await first.facts.sandboxes()).toEqual([]);
    expect(await first.facts.archives()).toHaveLength(1);
    await using second = await Stage.start({ emulator: first.emulator });
    await until(async () => (await second.lines('session claimed')).length === 1);
    await second.connected('devin-anna');
    expect(await first.count('session claimed')).toBe(1);
  });

  it('O8: deletes everything of a session, and only of that one', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.serve('devin-bert');
    const done = await dvo(stage.env, ['terminate', 'devin-anna', '--yes']);
    expect(done).toMatchObject({ code: 0, out: 'devin-anna: nothing of it is left here\n' });
    expect(await stage.facts.sandboxes()).toHaveLength(1);
    expect(await stage.facts.archives()).toEqual([]);
    expect((await statusOf(stage)).sessions).toMatchObject([{ sessionId: 'devin-bert', stage: 'serving' }]);
    expect((await dvo(stage.env, ['terminate', 'devin-anna', '--yes'])).code).toBe(1);
    for (const slip of ['', ' ', 'devin-b', 'dvo-']) {
      const refused = await dvo(stage.env, ['terminate', slip, '--yes']);
      expect(refused, slip).toMatchObject({
        code: 2,
        out: '',
        err: expect.stringMatching(/empty|whole name/),
      });
    }
    expect(await stage.facts.stage('devin-bert')).toBe('serving');
    const [bert] = (await statusOf(stage)).sessions;
    expect((await dvo(stage.env, ['terminate', bert?.name ?? '', '--yes'])).out).toContain('devin-bert');
  });

  it('O8: takes orders only with the token that stands in STATE_DIR', async () => {
    await using stage = await Stage.start({ env: { OPS_TOKEN: 'correct-horse-battery' } });
    await stage.serve('devin-anna');
    const { url, control: token } = await control(stage);
    expect((await stat(join(stage.stateDir, 'ops.json'))).mode & 0o077).toBe(0);
    const order = JSON.stringify({ sessionId: 'devin-anna', order: 'terminate' });
    expect(await post(url, order)).toBe(403);
    expect(await post(url, order, 'correct-horse-battery')).toBe(403);
    expect(await post(url, order, `${token}0`)).toBe(403);
    expect(await post(url, '{"sessionId":"devin-anna","order":"dance"}', token)).toBe(400);
    expect(await post(url, 'x'.repeat(100_000), token)).toBe(400);
    expect(await post(url, '{"sessionId":"nobody","order":"suspend"}', token)).toBe(404);
    expect(await stage.facts.stage('devin-anna')).toBe('serving');
    expect(await stage.printed()).not.toContain(token);
    expect((await statusOf(stage)).daemon).toBeDefined();
  });

  it('O8: carries an order out that was given to a daemon which died', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const { url, control: token } = await control(stage);
    expect(await post(url, '{"sessionId":"devin-anna","order":"terminate"}', token)).toBe(200);
    await stage.daemon.end('SIGKILL');
    await stage.start();
    await stage.empty();
  });
});

describe('dvo suspend, release and terminate, without a daemon', () => {
  it('O8: does the same by itself', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.serve('devin-bert');
    await stage.run('devin-anna', 'echo precious > work.txt');
    await stage.daemon.end('SIGKILL');
    const slept = await dvo(stage.env, ['suspend', 'devin-anna', '--yes']);
    expect(slept.err).toContain('No daemon runs');
    expect(slept).toMatchObject({ code: 0, out: expect.stringContaining('devin-anna: asleep') });
    expect(await stage.facts.archives()).toHaveLength(1);
    const gone = await dvo(stage.env, ['terminate', 'devin-bert', '--yes']);
    expect(gone).toMatchObject({ code: 0, out: expect.stringContaining('nothing of it is left') });
    expect(await stage.facts.sandboxes()).toEqual([]);
    expect(await stage.facts.processes()).toBe(0);
    expect(await stage.facts.records()).toBe(1);
    await stage.start();
    await until(async () => (await statusOf(stage)).waiting.length === 2);
  });

  it('O8: does nothing beside a daemon that it cannot reach', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await writeFile(join(stage.stateDir, 'ops.json'), '{}');
    const refused = await dvo(stage.env, ['terminate', 'devin-anna', '--yes']);
    expect(refused.code).toBe(3);
    expect(refused.err).toContain(String(stage.daemon.pid));
    expect(await stage.facts.stage('devin-anna')).toBe('serving');
  });
});
