/** What a real daemon shows of itself. */
import { describe, expect, it } from 'vitest';
import { STATUS_VIEW, type StatusView } from '../../src/ops/view.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

const TOKEN = 'correct-horse-battery';

async function statusOf(stage: Stage): Promise<StatusView> {
  return STATUS_VIEW.parse(JSON.parse((await stage.ops('/api/status')).text));
}

describe('the status of a daemon', () => {
  it('tells a session’s life, and remembers it over a sleep and a restart', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    await until(async () => (await statusOf(stage)).sessions[0]?.stage === 'suspended');
    const before = await statusOf(stage);
    expect(before.daemon).toMatchObject({ provider: 'local', version: expect.stringMatching(/^\d+\./) });
    const told = before.sessions[0]?.events.map(({ what }) => what) ?? [];
    const life = ['queued', 'claimed', 'preparing', 'serving', 'being taken down', 'archive ready', 'asleep'];
    expect(told.filter((what) => life.includes(what))).toEqual(life);
    expect(before.sessions[0]?.archive?.snapshotId).toBeDefined();
    await stage.daemon.end('SIGTERM');
    await stage.start();
    const after = await statusOf(stage);
    expect(after.sessions[0]?.events).toEqual(before.sessions[0]?.events);
    expect((await stage.ops('/')).text).toContain('<title>dvo</title>');
  });

  it('every line of a step says which session, sandbox, step and attempt, and how long it took', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    const [launched] = await stage.lines('remote launched');
    expect(launched).toMatchObject({
      session: 'devin-a',
      sandbox: expect.stringMatching(/^dvo-/),
      step: 'launch',
      attempt: 1,
      tookMs: expect.any(Number),
    });
    await until(async () => (await stage.count('step done')) > 0);
  });

  it('OPS_TOKEN opens what strangers do not see, and stands nowhere in the log', async () => {
    await using stage = await Stage.start({ env: { OPS_TOKEN: TOKEN } });
    expect((await stage.ops('/api/status')).status).toBe(401);
    expect((await stage.ops('/metrics')).status).toBe(401);
    await until(async () => (await stage.ops('/readyz')).status === 200);
    const started = (await stage.lines('started')).at(-1);
    const body = new URLSearchParams({ token: TOKEN });
    const entered = await fetch(`${String(started?.['ops'])}/login`, {
      method: 'POST',
      body,
      redirect: 'manual',
    });
    expect(entered.status).toBe(303);
    expect(await stage.printed()).not.toContain(TOKEN);
    const authorization = `Bearer ${TOKEN}`;
    const seen = await fetch(`${String(started?.['ops'])}/metrics`, { headers: { authorization } });
    expect(seen.status).toBe(200);
  });
});
