/** A collector of traces on loopback: takes OTLP as JSON over HTTP, as the real ones do. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { z } from 'zod';

const VALUE = z.object({
  stringValue: z.string().optional(),
  intValue: z.union([z.number(), z.string()]).optional(),
});
const ATTRIBUTES = z.array(z.object({ key: z.string(), value: VALUE }));
const SPAN = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  startTimeUnixNano: z.string(),
  endTimeUnixNano: z.string(),
  attributes: ATTRIBUTES,
  status: z.object({ code: z.number(), message: z.string().optional() }),
});
const REQUEST = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: ATTRIBUTES }),
      scopeSpans: z.array(z.object({ spans: z.array(SPAN) })),
    }),
  ),
});

export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  /** 0: unset · 2: error */
  readonly code: number;
  readonly message: string | undefined;
}

export class OtlpCollector implements AsyncDisposable {
  readonly spans: CollectedSpan[] = [];
  /** Everything that was received, as it came. */
  text = '';
  readonly authorizations = new Set<string | undefined>();
  /** What is answered. */
  status = 200;
  readonly #server = createServer((request, response) => {
    void this.#take(request).then((status) => response.writeHead(status).end('{}'));
  });

  static async start(): Promise<OtlpCollector> {
    const collector = new OtlpCollector();
    collector.#server.listen(0, '127.0.0.1');
    await once(collector.#server, 'listening');
    return collector;
  }

  get endpoint(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  named(name: string): readonly CollectedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  async #take(request: import('node:http').IncomingMessage): Promise<number> {
    const body = (await buffer(request)).toString();
    if (this.status !== 200) return this.status;
    if (request.url !== '/v1/traces') return 404;
    this.text += body;
    this.authorizations.add(request.headers.authorization);
    for (const { resource, scopeSpans } of REQUEST.parse(JSON.parse(body)).resourceSpans) {
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({
          traceId: span.traceId,
          spanId: span.spanId,
          parentSpanId: span.parentSpanId === '' ? undefined : span.parentSpanId,
          name: span.name,
          startedAt: Number(span.startTimeUnixNano) / 1e6,
          endedAt: Number(span.endTimeUnixNano) / 1e6,
          attributes: plain(span.attributes),
          resource: plain(resource.attributes),
          code: span.status.code,
          message: span.status.message,
        });
      }
    }
    return 200;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function plain(attributes: z.infer<typeof ATTRIBUTES>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [key, String(value.stringValue ?? value.intValue ?? '')]),
  );
}
