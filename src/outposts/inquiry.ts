/**
 * Single questions to Devin for whoever checks a set-up: one try each, the answer as it came, with the server's time.
 * The daemon itself uses api.ts, which repeats and forgives.
 */
import { z } from 'zod';
import type { Call } from '../lib/deadline.ts';
import { withDeadline } from '../lib/deadline.ts';
import { readText } from '../lib/fetch.ts';
import { parseJson } from '../lib/json.ts';
import { Transport, type TransportOptions } from './transport.ts';

export interface InquiryOptions extends Omit<TransportOptions, 'onRequest'> {
  /** Without `/opbeta` and without a final slash. */
  readonly baseUrl: string;
}

export interface Reply {
  readonly status: number;
  /** Undefined: no JSON. */
  readonly body: unknown;
  /** The server's clock minus ours at the middle of the exchange, in milliseconds; undefined without a `date`. */
  readonly skewMs: number | undefined;
}

export interface OutpostRow {
  readonly id: string;
  readonly name: string;
  /** Undefined: not told, which means linux. */
  readonly platform: string | undefined;
}

const LARGEST_BODY_BYTES = 4_000_000;
/** An account with more outposts than this many pages is asked for nothing further. */
const MOST_PAGES = 20;

const PAGE = z.object({
  items: z.array(z.unknown()),
  end_cursor: z.string().nullish(),
  has_next_page: z.boolean().nullish(),
});
const ROW = z.object({
  metadata: z.object({ outpost_id: z.string() }),
  spec: z.object({ name: z.string().catch(''), platform: z.string().nullish() }),
});

export class Inquiry {
  readonly #options: InquiryOptions;
  readonly #transport: Transport;

  constructor(options: InquiryOptions) {
    this.#options = options;
    this.#transport = new Transport({ ...options, onRequest: () => undefined });
  }

  /** One row of the outpost's queue. @throws ApiError when no whole answer came; `deadline`, `aborted` */
  async queue(outpostId: string, call: Call): Promise<Reply> {
    return await this.#ask(
      `/devins?${new URLSearchParams({ outpost: outpostId, first: '1' }).toString()}`,
      call,
    );
  }

  /**
   * The outposts that the token may list, or the status of the refusal. The prefix itself is what public
   * implementations use; the documented path is asked on 404.
   */
  async outposts(call: Call): Promise<readonly OutpostRow[] | { readonly refused: number }> {
    for (const path of ['', '/outposts']) {
      const found = await this.#pages(path, call);
      if (!('refused' in found && found.refused === 404)) return found;
    }
    return { refused: 404 };
  }

  async #pages(path: string, call: Call): Promise<readonly OutpostRow[] | { readonly refused: number }> {
    const rows: OutpostRow[] = [];
    let after = '';
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const reply = await this.#ask(`${path}${after}`, call);
      const page = PAGE.safeParse(reply.body);
      if (reply.status !== 200 || !page.success) return { refused: reply.status };
      for (const item of page.data.items) {
        const row = ROW.safeParse(item);
        if (!row.success) continue;
        const { metadata, spec } = row.data;
        rows.push({ id: metadata.outpost_id, name: spec.name, platform: spec.platform?.toLowerCase() });
      }
      const { end_cursor: cursor, has_next_page: more } = page.data;
      if (more !== true || typeof cursor !== 'string') return rows;
      after = `?${new URLSearchParams({ after: cursor }).toString()}`;
    }
    return rows;
  }

  async #ask(path: string, call: Call): Promise<Reply> {
    const { clock, baseUrl } = this.#options;
    const exchange = {
      operation: 'ask Devin',
      method: 'GET',
      url: `${baseUrl}/opbeta/outposts${path}`,
    } as const;
    return await withDeadline(clock, exchange.operation, call, async (signal) => {
      const askedAt = clock.now();
      const response = await this.#transport.open(exchange, signal, 'application/json');
      const ours = (askedAt + clock.now()) / 2;
      const text = (await readText(response, LARGEST_BODY_BYTES)) ?? '';
      const date = Date.parse(response.headers.get('date') ?? '');
      // The header counts whole seconds; on average half of one has passed.
      const skewMs = Number.isNaN(date) ? undefined : date + 500 - ours;
      return { status: response.status, body: parseJson(text), skewMs };
    });
  }
}
