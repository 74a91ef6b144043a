import { describe, expect, it } from 'vitest';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

describe('watching the queue', () => {
  it('W1: replaces a watch that has gone silent, and claims what came meanwhile', async () => {
    await using stage = await Stage.start({
      env: { WATCH_IDLE_TIMEOUT_MS: '600', POLL_INTERVAL_MS: '60000' },
      knobs: { keepaliveMs: 100 },
    });
    await until(() => stage.emulator.queue.openWatches === 1);
    stage.emulator.knobs.watchSilent = true;
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    await until(async () => (await stage.metric('dvo_watch_reconnects_total{reason="idle"}')) >= 1);
    stage.emulator.knobs.watchSilent = false;
    await stage.connected('devin-a');
    expect(stage.emulator.queue.openWatches).toBe(1);
  });

  it('W1: notices a watch that lives and withholds its events, by the poll beside it', async () => {
    await using stage = await Stage.start({ env: { POLL_INTERVAL_MS: '300' }, knobs: { keepaliveMs: 100 } });
    await until(() => stage.emulator.queue.openWatches === 1);
    stage.emulator.knobs.watchWithholds = true;
    await stage.serve('devin-a');
    await until(async () => (await stage.metric('dvo_watch_reconnects_total{reason="withheld"}')) >= 1);
    await until(() => stage.emulator.queue.openWatches === 1);
  });

  it('W2, W3: reconnects at once after routine ends, without a warning', async () => {
    await using stage = await Stage.start({ knobs: { watchLifeMs: 2_200 } });
    await until(async () => (await stage.metric('dvo_watch_reconnects_total{reason="ended"}')) >= 2);
    await stage.serve('devin-a');
    expect(await stage.count('watch lost; opening it again')).toBe(0);
  });

  it('W3: backs off from a server that accepts and hangs up', async () => {
    await using stage = await Stage.start({ knobs: { watchHangsUp: true } });
    await until(async () => (await stage.metric('dvo_watch_reconnects_total{reason="ended"}')) >= 3);
    const waits = (await stage.lines('watch lost; opening it again')).map((line) => Number(line['time']));
    // Each wait is at least half of a doubling interval, so the spaces grow.
    const [first = 0, second = 0] = waits;
    expect(waits.length === 1 || second - first > 400).toBe(true);
    stage.emulator.knobs.watchHangsUp = false;
    await stage.serve('devin-a');
    await until(() => stage.emulator.queue.openWatches === 1);
  });

  it('W5: skips what it cannot read, counts it, and goes on', async () => {
    await using stage = await Stage.start();
    await until(() => stage.emulator.queue.openWatches === 1);
    stage.emulator.queue.inject('data: {broken\n\n');
    stage.emulator.queue.inject('data: {"type":"MODIFIED","object":{}}\n\n');
    stage.emulator.queue.inject('data: {"type":"PAINTED","object":{"id":"x"},"cursor":"c0"}\n\n');
    await until(async () => (await stage.metric('dvo_queue_skipped_total')) === 3);
    await stage.serve('devin-a');
    expect(stage.emulator.queue.openWatches).toBe(1);
  });

  it('W6: serves after a restart what failed before it', async () => {
    await using stage = await Stage.start();
    stage.emulator.fault({ route: 'claim', kind: 'status', status: 500, count: 0, sessionId: 'devin-a' });
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    await stage.serve('devin-b');
    await stage.daemon.end('SIGKILL');
    stage.emulator.faults.clear();
    await stage.start();
    await stage.connected('devin-a');
  });

  it('W7: comes back to exactly one watch after Devin was away', async () => {
    await using stage = await Stage.start();
    stage.emulator.fault({ route: '*', kind: 'status', status: 503, count: 40 });
    stage.emulator.queue.closeWatches();
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    await until(async () => (await stage.count('queue not readable')) > 0);
    stage.emulator.faults.clear();
    await stage.connected('devin-a');
    await until(() => stage.emulator.queue.openWatches === 1);
  });

  it('W4: makes nothing for a session that went while it waited for a slot', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '1' } });
    await stage.serve('devin-a');
    stage.emulator.enqueue({ sessionId: 'devin-gone' });
    stage.emulator.enqueue({ sessionId: 'devin-next' });
    stage.emulator.knobs.watchWithholds = true;
    stage.emulator.knobs.tombstoneMs = 0;
    stage.emulator.terminate('devin-gone');
    await until(() => stage.facts.session('devin-gone')?.queued === false);
    stage.emulator.knobs.watchWithholds = false;
    stage.emulator.terminate('devin-a');
    await stage.connected('devin-next');
    expect(stage.facts.session('devin-gone')?.seen.claims).toBe(0);
  });

  it('Q3: reads every drift of names and deadlines', async () => {
    for (const knobs of [
      { names: 'camel', deadline: 'iso' },
      { names: 'snake', deadline: 'milliseconds' },
      { names: 'camel', deadline: 'absent' },
    ] as const) {
      await using stage = await Stage.start({ knobs });
      await stage.serve('devin-a');
    }
  });
});

describe('claims', () => {
  it('C1: recovers a claim whose answer was lost', async () => {
    await using stage = await Stage.start({ knobs: { renewals: 'refuse' } });
    stage.emulator.fault({ route: 'claim', kind: 'reset-after', count: 1 });
    await stage.serve('devin-a');
    expect(await stage.count('remote launched')).toBe(1);
    expect(stage.emulator.state().violations).toEqual([]);
  });

  it('C3: takes up again what was released, given up or archived before a restart', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    await stage.daemon.end('SIGKILL');
    stage.emulator.wake('devin-a');
    await stage.start();
    await stage.connected('devin-a');
  });

  it('C4: the second daemon with one STATE_DIR refuses to start, naming the first', async () => {
    await using stage = await Stage.start();
    const first = stage.daemon;
    const second = await Stage.open({ emulator: stage.emulator, env: { STATE_DIR: stage.stateDir } });
    second.daemon.start();
    expect(await second.daemon.exited()).toBe(3);
    const said = (await second.lines('cannot start')).map((line) => String(line['error'])).join();
    expect(said).toContain(`process ${first.pid}`);
    await second[Symbol.asyncDispose]();
    await stage.serve('devin-a');
  });

  it('C5: a burst never passes the limit, and every session is served in the end', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '3' } });
    const ids = Array.from({ length: 12 }, (_, at) => `devin-${at}`);
    for (const sessionId of ids) stage.emulator.enqueue({ sessionId });
    let most = 0;
    for (const sessionId of ids) {
      await until(async () => {
        most = Math.max(most, (await stage.facts.sandboxes()).length);
        return stage.facts.remotePid(sessionId) !== undefined;
      });
      stage.emulator.terminate(sessionId);
    }
    await stage.empty();
    expect(most).toBe(3);
    expect(await stage.metric('dvo_slots_used')).toBeLessThanOrEqual(3);
  });

  it('Q5: renews a claim before it runs out', async () => {
    await using stage = await Stage.start({
      knobs: { claimLifeMs: 4_000 },
      env: { CLAIM_RENEW_MARGIN_SECONDS: '2' },
    });
    const pid = await stage.serve('devin-a');
    await until(() => (stage.facts.session('devin-a')?.seen.claims ?? 0) >= 3, { withinMs: 20_000 });
    expect(stage.facts.session('devin-a')?.phase).toBe('claimed');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
  });

  it('takes a lapsed claim of a running session again, outside admission', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '1' } });
    const pid = await stage.serve('devin-a');
    stage.emulator.expire('devin-a');
    await until(() => stage.facts.session('devin-a')?.phase === 'claimed');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
  });

  it('Q7: leaves alone what it cannot serve, and says why once', async () => {
    await using stage = await Stage.start();
    const policy = { enabled: true, allow: [{ hostname: 'example.com' }] };
    stage.emulator.enqueue({ sessionId: 'devin-windows', platform: 'Windows' });
    stage.emulator.enqueue({ sessionId: 'devin-policy', networkPolicy: policy });
    stage.emulator.enqueue({ sessionId: 'devin-dead', status: 'suspended' });
    await stage.serve('devin-a');
    await until(async () => (await stage.count('session not claimed')) >= 2);
    for (const id of ['devin-windows', 'devin-policy', 'devin-dead']) {
      expect(stage.facts.session(id)?.seen.claims).toBe(0);
    }
    expect(await stage.count('session not claimed')).toBe(2);
  });

  it('serves hostile session ids, or refuses them by name, and goes on', async () => {
    await using stage = await Stage.start({ env: { MAX_CONCURRENT_SESSIONS: '10' } });
    const served = [
      '../x',
      '__proto__',
      'a\nb',
      `devin-${'x'.repeat(3_000)}`,
      '雪だるま☃',
      'a\'b$(touch /tmp/x)`"',
      ' ',
      '%2e%2e',
    ];
    for (const sessionId of [...served, '..']) stage.emulator.enqueue({ sessionId });
    for (const sessionId of served) {
      await stage.connected(sessionId);
      expect(await stage.run(sessionId, 'echo here')).toBe('here\n');
    }
    await until(async () =>
      (await stage.lines('step failed')).some((line) =>
        String(line['error']).includes('cannot be part of a URL'),
      ),
    );
    for (const sessionId of served) stage.emulator.terminate(sessionId);
    await until(async () => (await stage.facts.sandboxes()).length === 0);
  });

  it('Q10: a session whose daemon died is taken over with its workspace kept by the next claim', async () => {
    await using first = await Stage.start();
    await first.serve('devin-a');
    const [mine] = await first.facts.sandboxes('devin-a');
    first.emulator.steal('devin-a', 'somebody-else');
    await until(async () => (await first.count('taking the session down')) === 1, {
      what: 'the loser lets go',
    });
    await until(() => first.facts.remotePid('devin-a') === undefined, { what: 'its remote is stopped' });
    expect(await first.facts.sandboxes('devin-a')).toEqual([mine]);
    expect(first.facts.session('devin-a')?.acceptor).toBe('somebody-else');
  });
});
