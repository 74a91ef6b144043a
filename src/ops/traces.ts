/**
 * Traces by OpenTelemetry, sent by OTLP over HTTP. The SDK is loaded here, and only when an endpoint is configured. It
 * registers no globals, so nothing else in the process is traced by accident.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import type { Context, Span, Tracer as SdkTracer } from '@opentelemetry/api';
import type { IdGenerator, SpanExporter } from '@opentelemetry/sdk-trace-node';
import type { Clock } from '../lib/clock.ts';
import { unstopped, withDeadline } from '../lib/deadline.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Redactor, Secret } from '../lib/secret.ts';
import type { Attributes, Life, Tracer } from '../lib/tracer.ts';
import { version } from '../lib/version.ts';

export interface TracesOptions {
  /** OTLP over HTTP; `/v1/traces` is added. */
  readonly endpoint: string;
  /** `name=value,name=value`, percent-encoded; asked for before each export. */
  readonly headers?: () => Secret;
  readonly outpostId: string;
  readonly acceptorId: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly onExport: (result: 'ok' | 'failed', spans: number) => void;
}

export interface Traces {
  readonly tracer: Tracer;
  /** Sends what is left, for two seconds at most. */
  close(): Promise<void>;
}

const FLUSH_MS = 2_000;
/** As long as the SDK waits between two exports. */
const EXPORT_TIMEOUT_MS = 5_000;

/** A collector that cannot be reached costs a log line and its spans, nothing else. */
export async function openTraces(options: TracesOptions): Promise<Traces> {
  const trouble = new Trouble(options);
  const sdk = await loadSdk();
  const ids = new LifeIds(new sdk.RandomIdGenerator());
  const resource = sdk.resourceFromAttributes({
    'service.name': 'dvo',
    'service.version': version(),
    'service.instance.id': options.acceptorId,
    'dvo.outpost': options.outpostId,
  });
  const provider = new sdk.NodeTracerProvider({
    idGenerator: ids,
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, which the SDK reads itself, outrank ours.
    resource: resource.merge(sdk.detectResources({ detectors: [sdk.envDetector] })),
    spanProcessors: [new sdk.BatchSpanProcessor(watched(sdk, options, trouble))],
  });
  return {
    tracer: new OtelTracer(sdk, provider.getTracer('dvo', version()), ids, options),
    async close() {
      try {
        const limit = unstopped(FLUSH_MS);
        await withDeadline(options.clock, 'last export of traces', limit, () => provider.shutdown());
      } catch (error) {
        trouble.begins(error);
      }
    },
  };
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>;

async function loadSdk() {
  const [api, trace, otlp, resources, core] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/core'),
  ]);
  return { ...core, ...resources, ...trace, ...otlp, ...api };
}

/** Told once, until it is over. */
class Trouble {
  readonly #options: Pick<TracesOptions, 'log' | 'redactor'>;
  #lasts = false;

  constructor(options: Pick<TracesOptions, 'log' | 'redactor'>) {
    this.#options = options;
  }

  begins(error: unknown): void {
    const { log, redactor } = this.#options;
    if (!this.#lasts) log.warn('traces not exported', { error: redactor.scrub(describeError(error)) });
    this.#lasts = true;
  }

  ends(): void {
    if (this.#lasts) this.#options.log.info('traces exported again');
    this.#lasts = false;
  }
}

/** The exporter, which tells of each export. */
function watched(sdk: Sdk, options: TracesOptions, trouble: Trouble): SpanExporter {
  const { endpoint, headers, onExport } = options;
  const inner = new sdk.OTLPTraceExporter({
    url: `${endpoint}/v1/traces`,
    timeoutMillis: EXPORT_TIMEOUT_MS,
    ...(headers === undefined
      ? {}
      : { headers: () => Promise.resolve(sdk.parseKeyPairsIntoRecord(headers().reveal())) }),
  });
  return {
    export(spans, done) {
      inner.export(spans, (result) => {
        const failed = result.code !== sdk.ExportResultCode.SUCCESS;
        onExport(failed ? 'failed' : 'ok', spans.length);
        if (failed) trouble.begins(result.error);
        else trouble.ends();
        done(result);
      });
    },
    shutdown: () => inner.shutdown(),
    forceFlush: () => inner.forceFlush(),
  };
}

/** Random ids, but for the root of a life: its trace goes on after a restart, so its ids follow from what it is. */
class LifeIds implements IdGenerator {
  readonly #random: IdGenerator;
  #fixed: { readonly traceId: string; readonly spanId: string } | undefined;

  constructor(random: IdGenerator) {
    this.#random = random;
  }

  readonly generateTraceId = (): string => this.#fixed?.traceId ?? this.#random.generateTraceId();
  readonly generateSpanId = (): string => this.#fixed?.spanId ?? this.#random.generateSpanId();

  of(life: Life): { readonly traceId: string; readonly spanId: string } {
    const hash = createHash('sha256').update(`${life.sandbox}\n${life.startedAt}`).digest('hex');
    return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
  }

  /** @param start starts one span, at once */
  rootOf(life: Life, start: () => Span): Span {
    this.#fixed = this.of(life);
    try {
      return start();
    } finally {
      this.#fixed = undefined;
    }
  }
}

class OtelTracer implements Tracer {
  readonly #sdk: Sdk;
  readonly #tracer: SdkTracer;
  readonly #ids: LifeIds;
  readonly #options: TracesOptions;
  /** What runs now, as the parent of the calls that it makes. */
  readonly #running = new AsyncLocalStorage<Context>();

  constructor(sdk: Sdk, tracer: SdkTracer, ids: LifeIds, options: TracesOptions) {
    this.#sdk = sdk;
    this.#tracer = tracer;
    this.#ids = ids;
    this.#options = options;
  }

  async step<T>(
    life: Life | undefined,
    step: { readonly name: string; readonly attributes: Attributes; readonly routine: boolean },
    work: () => Promise<T>,
  ): Promise<T> {
    const startTime = this.#options.clock.now();
    const context = this.#within(life);
    const attributes = { ...this.#attributesOf(life), ...step.attributes };
    const start = (): Span => this.#tracer.startSpan(step.name, { startTime, attributes }, context);
    if (!step.routine) return await this.#spanned(start(), context, work);
    try {
      return await work();
    } catch (error) {
      this.#end(start(), error);
      throw error;
    }
  }

  async call<T>(name: string, attributes: Attributes, work: () => Promise<T>): Promise<T> {
    const context = this.#running.getStore();
    if (context === undefined) return await work();
    const kind = this.#sdk.SpanKind.CLIENT;
    const startTime = this.#options.clock.now();
    return await this.#spanned(
      this.#tracer.startSpan(name, { kind, startTime, attributes }, context),
      context,
      work,
    );
  }

  ended(life: Life): void {
    const options = { root: true, startTime: life.startedAt, attributes: this.#attributesOf(life) };
    const start = (): Span => this.#tracer.startSpan('session', options, this.#sdk.ROOT_CONTEXT);
    this.#ids.rootOf(life, start).end(this.#options.clock.now());
  }

  async #spanned<T>(span: Span, context: Context, work: () => Promise<T>): Promise<T> {
    try {
      const result = await this.#running.run(this.#sdk.trace.setSpan(context, span), work);
      span.end(this.#options.clock.now());
      return result;
    } catch (error) {
      this.#end(span, error);
      throw error;
    }
  }

  #end(span: Span, error: unknown): void {
    const message = this.#options.redactor.scrub(describeError(error));
    span.setStatus({ code: this.#sdk.SpanStatusCode.ERROR, message });
    span.end(this.#options.clock.now());
  }

  #within(life: Life | undefined): Context {
    const { ROOT_CONTEXT, trace, TraceFlags } = this.#sdk;
    if (life === undefined) return ROOT_CONTEXT;
    const root = { ...this.#ids.of(life), traceFlags: TraceFlags.SAMPLED, isRemote: true };
    return trace.setSpanContext(ROOT_CONTEXT, root);
  }

  #attributesOf(life: Life | undefined): Attributes {
    return life === undefined ? {} : { 'dvo.session': life.sessionId, 'dvo.sandbox': life.sandbox };
  }
}
