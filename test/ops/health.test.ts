import { describe, expect, it } from 'vitest';
import { Heartbeats, readiness } from '../../src/ops/health.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { createMetrics } from '../../src/ops/metrics.ts';
import { healthRoutes, metricsRoute } from '../../src/ops/routes.ts';
import { startOpsServer } from '../../src/ops/server.ts';

describe('liveness', () => {
  it('T7: fails only for a loop that has not come round, and says which', () => {
    let now = 0;
    const beats = new Heartbeats(
      { now: () => now, sleep: async () => undefined },
      { watch: 1_000, poll: 5_000 },
    );
    expect(beats.alive().ok).toBe(true);
    now = 1_001;
    expect(beats.alive()).toMatchObject({ ok: false, reasons: [expect.stringContaining('the watch loop')] });
    beats.beat('watch');
    expect(beats.alive().ok).toBe(true);
    now = 6_000;
    expect(beats.alive().reasons).toHaveLength(2);
  });
});

describe('readiness', () => {
  const fine = {
    synced: true,
    problem: undefined,
    unauthorized: false,
    pauses: new Map(),
    indexTrouble: undefined,
    keptForWant: 0,
  };

  it('gives every reason in words', () => {
    expect(readiness(fine)).toEqual({ ok: true, reasons: [] });
    const pauses = new Map([
      ['platform-credentials', 'bad key'],
      ['platform-request', 'no such image'],
    ]);
    const bad = {
      synced: false,
      problem: 'refused',
      unauthorized: true,
      pauses,
      indexTrouble: 'ENOSPC',
      keptForWant: 0,
    };
    const { ok, reasons } = readiness(bad);
    expect(ok).toBe(false);
    for (const word of ['refused', 'DEVIN_OUTPOSTS_TOKEN', 'ENOSPC', 'bad key', 'no such image']) {
      expect(reasons.join()).toContain(word);
    }
  });

  it('L7: is degraded, not lost, without archives', () => {
    const { ok, reasons } = readiness({ ...fine, keptForWant: 3 });
    expect(ok).toBe(true);
    expect(reasons.join()).toMatch(/no archives .* 3/);
  });
});

describe('the ops server', () => {
  const open = (port: number) =>
    startOpsServer({
      host: '127.0.0.1',
      port,
      log: silentLogger,
      access: { judge: () => 'known' },
      routes: [
        metricsRoute(createMetrics()),
        ...healthRoutes({
          alive: () => ({ ok: true, reasons: [] }),
          ready: () => ({ ok: false, reasons: ['not yet'] }),
        }),
      ],
    });

  it('names the setting when its port is taken', async () => {
    const first = await open(0);
    await expect(open(Number(new URL(first.url).port))).rejects.toThrow('OPS_PORT');
    await first.close();
  });

  it('answers what it knows, refuses to be written to, and closes with connections open', async () => {
    const server = await open(0);
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    const ready = await fetch(`${server.url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { ok: false, reasons: ['not yet'] }]);
    expect((await fetch(`${server.url}/metrics`, { method: 'POST' })).status).toBe(405);
    await server.close();
    await expect(fetch(`${server.url}/healthz`)).rejects.toThrow();
  });

  it('keeps the labels of metrics within closed lists', async () => {
    const metrics = createMetrics();
    metrics.request('get', 'banana', 1);
    metrics.request('get', '404', 1);
    const text = await metrics.text();
    expect(text).toContain('dvo_api_requests_total{operation="get",code="other"} 1');
    expect(text).not.toContain('banana');
  });
});
