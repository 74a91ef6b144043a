import { afterEach, describe, expect, it } from 'vitest';
import type { FetchInit, FetchResponse } from '../../src/lib/fetch.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import { Heartbeats } from '../../src/ops/health.ts';
import { createOutpostsApi } from '../../src/outposts/api.ts';
import { QueueInformer, type WatchEnd } from '../../src/outposts/queue.ts';
import { clockOf, Scheduler } from '../simulation/virtual-clock.ts';

const MINUTE = 60_000;
const WATCH_LIFE_MS = 5 * MINUTE;
const YEAR_S = '31536000';
const HTML = '<!doctype html><title>Not found</title>';

type Question = 'list' | 'poll' | 'watch' | 'get';

interface Reply {
  readonly status?: number;
  readonly retryAfter?: string;
  readonly tookMs?: number;
  readonly body?: unknown;
}

const entry = (id: string, acceptor = 'me') => ({
  metadata: { session_id: id },
  status: { phase: 'claimed', acceptor_id: acceptor, session_status: 'running' },
});

/** A Devin whose list holds `rows`, and an informer of it, on a clock of their own. */
class Stage {
  readonly scheduler = new Scheduler(1);
  readonly asked: { readonly what: Question; readonly at: number; readonly cursor: string | null }[] = [];
  readonly ends: WatchEnd[] = [];
  /** What is answered instead, once each, in this order. */
  readonly instead: Record<Question, Reply[]> = { list: [], poll: [], watch: [], get: [] };
  rows: readonly unknown[] = [];
  readonly informer: QueueInformer;
  readonly #clock = clockOf(this.scheduler, { alive: true });
  // As the daemon sets them for these intervals.
  readonly #beats = new Heartbeats(this.#clock, { watch: 540_000, poll: 125_000, resync: 1_020_000 });
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(set: (stage: Stage) => void) {
    const shared = {
      clock: this.#clock,
      random: { next: () => 0.5, id: () => '0' },
      log: silentLogger,
      acceptorId: 'me',
    };
    const api = createOutpostsApi({
      ...shared,
      baseUrl: 'http://devin.test',
      outpostId: 'o',
      token: () => new Secret('cog_0123456789'),
      fetch: (url, init) => this.#answer(new URL(url), init),
      redactor: new Redactor(),
      observer: { request: () => undefined, skipped: () => undefined },
    });
    this.informer = new QueueInformer({
      ...shared,
      api,
      looksApartMs: 1_000,
      cursor: { load: async () => undefined, save: async () => undefined },
      settings: {
        pollIntervalMs: 5_000,
        resyncIntervalMs: 5 * MINUTE,
        watchIdleTimeoutMs: 45_000,
        callMs: 30_000,
      },
      onReconnect: (end) => this.ends.push(end),
      beat: (task) => this.#beats.beat(task),
      onChange: () => undefined,
      keep: () => true,
      onSynced: () => undefined,
    });
    set(this);
    this.#running = this.informer.run(this.#stop.signal);
  }

  /** Moves time on. At no moment may a loop count as stalled: the daemon would be restarted for it. */
  async elapse(ms: number): Promise<void> {
    const endsAt = this.scheduler.elapsed + ms;
    // What goes on without any wait comes before time moves, and time does not move past the end.
    for (const at of [0, ms]) this.scheduler.after(at, () => undefined);
    while (this.scheduler.elapsed < endsAt) {
      await this.scheduler.step();
      expect(this.#beats.alive()).toEqual({ ok: true, reasons: [] });
    }
  }

  /** When it was asked, in milliseconds since the start. */
  times(what: Question): readonly number[] {
    return this.asked.filter((one) => one.what === what).map(({ at }) => at);
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #answer(url: URL, init: FetchInit): Promise<FetchResponse> {
    const { searchParams } = url;
    const what = whatIsAsked(url);
    this.asked.push({ what, at: this.scheduler.elapsed, cursor: searchParams.get('cursor') });
    const reply = this.instead[what].shift();
    if (reply === undefined && what === 'watch') return response({}, this.#keepalives(init.signal));
    const whole = { items: what === 'poll' ? [] : this.rows, cursor: 'c1', has_next_page: false };
    const { body = whole, tookMs = 0 } = reply ?? {};
    if (tookMs > 0) await this.#clock.sleep(tookMs, init.signal);
    return response(reply ?? {}, once(typeof body === 'string' ? body : JSON.stringify(body)));
  }

  async *#keepalives(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let sent = 0; sent < 20; sent += 1) {
      yield Buffer.from(': keepalive\n\n');
      await this.#clock.sleep(WATCH_LIFE_MS / 20, signal);
    }
  }
}

function whatIsAsked({ pathname, searchParams }: URL): Question {
  if (!pathname.endsWith('/devins')) return 'get';
  if (searchParams.has('watch')) return 'watch';
  return searchParams.has('phase') ? 'poll' : 'list';
}

function response({ status = 200, retryAfter = '' }: Reply, body: AsyncIterable<Uint8Array>): FetchResponse {
  const get = (name: string): string | null =>
    name === 'retry-after' && retryAfter !== '' ? retryAfter : null;
  return { status, headers: { get }, body };
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

const open: Stage[] = [];
afterEach(async () => {
  for (const stage of open.splice(0)) await stage.end();
});

async function started(set: (stage: Stage) => void = () => undefined, ms = 1_000): Promise<Stage> {
  const stage = new Stage(set);
  open.push(stage);
  await stage.elapse(ms);
  return stage;
}

describe('Q9: asked to be left alone', () => {
  it('reads the first list when Devin said it may, and waits for no mistake of years', async () => {
    const stage = await started(({ instead }) => {
      instead.list.push({ status: 429, retryAfter: '60' }, { status: 503, retryAfter: YEAR_S });
    }, 10 * MINUTE);
    expect(stage.times('list').slice(0, 3)).toEqual([0, MINUTE, 6 * MINUTE]);
    expect(stage.informer.synced).toBe(true);
  });

  it('polls no sooner, and reads lists no sooner', async () => {
    const stage = await started();
    stage.instead.poll.push({ status: 429, retryAfter: '200' });
    await stage.elapse(4 * MINUTE);
    const [refused = 0, next = 0, then = 0] = stage.times('poll');
    expect([next - refused, then - next]).toEqual([200_000, 5_000]);
    stage.instead.list.push({ status: 429, retryAfter: '100' });
    await stage.elapse(6 * MINUTE);
    const [, resync = 0, repeated = 0] = stage.times('list');
    expect(repeated - resync).toBe(100_000);
  });

  it('opens the watch no sooner', async () => {
    const stage = await started(({ instead }) => {
      instead.watch.push(
        { status: 503, retryAfter: '60' },
        { status: 429, retryAfter: '60', tookMs: 10_000 },
      );
    });
    await stage.elapse(3 * MINUTE);
    expect(stage.times('watch')).toEqual([0, MINUTE, 2 * MINUTE + 10_000]);
    expect(stage.informer.health().watchConnected).toBe(true);
  });
});

describe('Q9: pages of something in between', () => {
  it('make no session absent', async () => {
    const stage = await started((set) => {
      set.rows = [entry('devin-a')];
    });
    stage.instead.get.push(...Array.from({ length: 4 }, () => ({ status: 404, body: HTML })));
    let failure: unknown;
    const look = stage.informer.look('devin-a', { timeoutMs: 30_000, signal: new AbortController().signal });
    void look.catch((error: unknown) => {
      failure = error;
    });
    await stage.elapse(10_000);
    expect(String(failure)).toContain('cannot be read');
    expect(stage.informer.sighting('devin-a').gist).toBe('held');
  });

  it.each([
    [{ error: 'cursor_expired' }, 'expired', 2],
    [HTML, 'failed', 1],
  ])('do not make the cursor worthless: 410 with %o', async (body, end, lists) => {
    const stage = await started(({ instead }) => {
      instead.watch.push({ status: 410, body });
    }, MINUTE);
    expect(stage.ends).toEqual([end]);
    expect(stage.times('list')).toHaveLength(lists);
    expect(stage.informer.health().watchConnected).toBe(true);
  });
});

describe('a list', () => {
  const cutOff = { items: [entry('devin-b')], has_next_page: true };

  it('that stops before its end makes nothing absent', async () => {
    const stage = await started(({ instead }) => {
      instead.list.push({ body: cutOff });
    }, 300);
    expect(stage.informer.synced).toBe(false);
    expect(stage.informer.sighting('devin-a').gist).toBe('unseen');
    expect(stage.informer.health().problem).toContain('no cursor');
    stage.rows = [entry('devin-a'), entry('devin-b')];
    await stage.elapse(MINUTE);
    stage.instead.list.push({ body: cutOff });
    await stage.elapse(5 * MINUTE);
    expect(stage.times('list').length).toBeGreaterThanOrEqual(4);
    expect(stage.informer.sighting('devin-a').gist).toBe('held');
  });
});

describe('W1: a watch that tells nothing', () => {
  it('is left in peace where nothing happens, however many sessions there were at the start', async () => {
    const stage = await started((set) => {
      set.rows = [entry('devin-a'), entry('devin-b', 'other')];
    }, 4 * MINUTE);
    expect(stage.informer.health().watchConnected).toBe(true);
    expect(stage.ends).toEqual([]);
  });

  it('is replaced when a read knew more', async () => {
    const stage = await started();
    stage.instead.poll.push({ body: { items: [entry('devin-a', 'other')], has_next_page: false } });
    await stage.elapse(MINUTE);
    expect(stage.ends).toEqual(['withheld']);
  });
});
