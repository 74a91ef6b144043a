/** Traces against a collector over sockets. */
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { createLogger } from '../../src/lib/log.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import type { Life } from '../../src/lib/tracer.ts';
import { openTraces, type Traces } from '../../src/ops/traces.ts';
import { OtlpCollector } from '../support/otlp-collector.ts';

const LIFE: Life = { sessionId: 'devin-a', sandbox: 'dvo-a', startedAt: 1_700_000_000_000 };
const SECRET = 'cog_very_secret';

interface Opened extends Traces {
  readonly lines: string[];
  readonly exports: string[];
}

async function open(endpoint: string, headers?: string): Promise<Opened> {
  const lines: string[] = [];
  const exports: string[] = [];
  const redactor = new Redactor();
  redactor.add(SECRET);
  const traces = await openTraces({
    endpoint,
    ...(headers === undefined ? {} : { headers: () => new Secret(headers) }),
    outpostId: 'outpost-1',
    acceptorId: 'acceptor-1',
    clock: systemClock,
    log: createLogger({ level: 'debug', format: 'json', redactor, write: (line) => void lines.push(line) }),
    redactor,
    onExport: (result, spans) => void exports.push(`${result} ${spans}`),
  });
  return { ...traces, lines, exports };
}

const step = (name: string, routine = false) => ({ name, attributes: {}, routine });
const fail = (): Promise<never> => Promise.reject(new Error(`refused: ${SECRET}`));

describe('traces', () => {
  it('a life is one trace, also across a restart: steps below its root, calls below their step', async () => {
    await using collector = await OtlpCollector.start();
    const first = await open(collector.endpoint, 'authorization=Bearer%20abc');
    await first.tracer.step(LIFE, step('claim'), () => first.tracer.call('devin claim', {}, async () => 1));
    await first.close();
    const second = await open(collector.endpoint);
    await second.tracer.step(LIFE, step('terminate'), async () => 1);
    second.tracer.ended(LIFE);
    await second.close();
    const [root] = collector.named('session');
    const [claim] = collector.named('claim');
    const [call] = collector.named('devin claim');
    const [terminate] = collector.named('terminate');
    expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(root).toMatchObject({ parentSpanId: undefined, startedAt: LIFE.startedAt });
    expect(root?.attributes).toEqual({ 'dvo.session': 'devin-a', 'dvo.sandbox': 'dvo-a' });
    expect([claim?.parentSpanId, terminate?.parentSpanId]).toEqual([root?.spanId, root?.spanId]);
    expect(call?.parentSpanId).toBe(claim?.spanId);
    expect(claim?.resource).toMatchObject({ 'service.name': 'dvo', 'service.instance.id': 'acceptor-1' });
    expect(collector.authorizations).toEqual(new Set(['Bearer abc', undefined]));
    expect(first.exports).toEqual(['ok 2']);
  });

  it('the next life of the same session is another trace', async () => {
    await using collector = await OtlpCollector.start();
    const traces = await open(collector.endpoint);
    traces.tracer.ended(LIFE);
    traces.tracer.ended({ ...LIFE, startedAt: LIFE.startedAt + 1 });
    await traces.close();
    expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(2);
  });

  it('steps that run side by side keep their calls apart', async () => {
    await using collector = await OtlpCollector.start();
    const traces = await open(collector.endpoint);
    const { tracer } = traces;
    const other = { ...LIFE, sandbox: 'dvo-b' };
    const gate = Promise.withResolvers<void>();
    const one = tracer.step(LIFE, step('prepare'), async () => {
      await gate.promise;
      await tracer.call('late call', {}, async () => 1);
    });
    await tracer.step(other, step('launch'), () => tracer.call('early call', {}, async () => 1));
    gate.resolve();
    await one;
    await traces.close();
    expect(collector.named('late call')[0]?.parentSpanId).toBe(collector.named('prepare')[0]?.spanId);
    expect(collector.named('early call')[0]?.parentSpanId).toBe(collector.named('launch')[0]?.spanId);
  });

  it('a failure is told, without what is secret, and goes on to whoever asked', async () => {
    await using collector = await OtlpCollector.start();
    const traces = await open(collector.endpoint);
    const { tracer } = traces;
    const failing = tracer.step(LIFE, step('launch'), () => tracer.call('local exec', {}, fail));
    await expect(failing).rejects.toThrow(SECRET);
    await traces.close();
    for (const name of ['launch', 'local exec']) {
      expect(collector.named(name)[0]).toMatchObject({ code: 2, message: 'refused: [redacted]' });
    }
    expect(collector.text).not.toContain(SECRET);
  });

  it('what is routine is told only when it fails, and calls outside of steps never', async () => {
    await using collector = await OtlpCollector.start();
    const traces = await open(collector.endpoint);
    const { tracer } = traces;
    await tracer.step(LIFE, step('probe', true), () => tracer.call('local exec', {}, async () => 1));
    await tracer.call('devin list', {}, async () => 1);
    await expect(tracer.step(LIFE, step('probe', true), fail)).rejects.toThrow('refused');
    await traces.close();
    expect(collector.spans.map(({ name, code }) => [name, code])).toEqual([['probe', 2]]);
  });

  it('a collector in trouble costs one log line and a count, and delays a stop by no more than its limit', async () => {
    await using collector = await OtlpCollector.start();
    collector.status = 400;
    const traces = await open(collector.endpoint);
    traces.tracer.ended(LIFE);
    await traces.close();
    expect(traces.exports).toEqual(['failed 1']);
    expect(traces.lines.map((line) => JSON.parse(line).msg)).toEqual(['traces not exported']);
  });

  it('a collector that is not there is the same', async () => {
    const traces = await open('http://127.0.0.1:9');
    traces.tracer.ended(LIFE);
    await traces.close();
    expect(traces.lines.map((line) => JSON.parse(line).msg)).toEqual(['traces not exported']);
  });
});
