/** Traces of a real daemon, at a collector over sockets. */
import { describe, expect, it } from 'vitest';
import { OtlpCollector, type CollectedSpan } from '../support/otlp-collector.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

const TOKEN = 'collector-token-17';
/** The SDK's own variable: how long spans are gathered before they are sent. */
const SOON = { OTEL_BSP_SCHEDULE_DELAY: '50' };

function below(spans: readonly CollectedSpan[], parent: CollectedSpan | undefined): readonly string[] {
  return spans.filter(({ parentSpanId }) => parentSpanId === parent?.spanId).map(({ name }) => name);
}

describe('traces of a daemon', () => {
  it('one trace tells the life of a session over a sleep and a kill -9, with the calls of each step', async () => {
    await using collector = await OtlpCollector.start();
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.endpoint}/`,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${TOKEN}`,
      ...SOON,
    };
    await using stage = await Stage.start({ env });
    await stage.serve('devin-a');
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    await until(() => collector.named('settle').length > 0, { what: 'the sleep is told' });
    await stage.daemon.end('SIGKILL');
    await stage.start();
    stage.emulator.wake('devin-a');
    await stage.connected('devin-a');
    const connectTokens = [...(stage.emulator.store.sessions.get('devin-a')?.tokens ?? [])];
    expect(connectTokens).not.toEqual([]);
    stage.emulator.terminate('devin-a');
    await stage.empty();
    const root = await until(() => collector.named('session')[0], { what: 'the life is told' });
    await stage.daemon.end('SIGTERM');

    const life = collector.spans.filter(({ traceId }) => traceId === root.traceId);
    const steps = below(life, root);
    const course = [
      'claim',
      'ensure-sandbox',
      'prepare',
      'launch',
      'stop-remote',
      'archive',
      'destroy',
      'settle',
    ];
    expect(steps).toEqual(expect.arrayContaining([...course, 'terminate']));
    expect(steps.filter((name) => name === 'launch')).toHaveLength(2);
    expect(below(life, collector.named('claim')[0])).toEqual(['devin claim']);
    const made = collector.named('ensure-sandbox').map((span) => below(life, span));
    expect(made.filter((calls) => calls.includes('local create'))).toHaveLength(2);
    expect(below(life, collector.named('look')[0])).toEqual(['devin get']);
    expect(collector.named('probe')).toEqual([]);
    // Everything of the session is in that trace, and lies within the life.
    expect(collector.spans.filter((span) => span.attributes['dvo.session'] === 'devin-a')).toSatisfy(
      (spans: readonly CollectedSpan[]) => spans.every(({ traceId }) => traceId === root.traceId),
    );
    expect(Math.min(...life.map(({ startedAt }) => startedAt))).toBe(root.startedAt);
    expect(Math.max(...life.map(({ endedAt }) => endedAt))).toBeLessThanOrEqual(root.endedAt + 1_000);
    expect(collector.authorizations).toEqual(new Set([`Bearer ${TOKEN}`]));
    const secrets = [TOKEN, stage.emulator.knobs.token, ...connectTokens];
    for (const secret of secrets) {
      expect(collector.text).not.toContain(secret);
      expect(await stage.printed()).not.toContain(secret);
    }
  });

  it('a collector that is away is told once, and costs nothing else', async () => {
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', ...SOON };
    await using stage = await Stage.start({ env });
    await stage.serve('devin-a');
    const lost = 'dvo_trace_spans_total{result="failed"}';
    await until(async () => (await stage.metric(lost)) > 0, { what: 'spans are lost' });
    const before = await stage.metric(lost);
    await stage.serve('devin-b');
    await until(async () => (await stage.metric(lost)) > before, { what: 'more are' });
    expect(await stage.count('traces not exported')).toBe(1);
    await stage.daemon.end('SIGTERM');
    expect(await stage.count('stopped')).toBe(1);
  });
});
