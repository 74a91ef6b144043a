/** The queue as one daemon reaches it: `OutpostsApi` over the shared queue, with the network's faults. */
import { DvoError } from '../../src/lib/errors.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Call } from '../../src/lib/deadline.ts';
import { ApiError, type OutpostsApi, type QueueEvent } from '../../src/outposts/outposts.ts';
import type { Draw } from './draw.ts';
import type { Faults } from './faults.ts';
import type { Line } from './line.ts';
import type { QueueWorld } from './queue-world.ts';
import type { Scheduler } from './virtual-clock.ts';

const LATENCY = [5, 250] as const;
const WATCH_LIFE_MS = 300_000;
const KEEPALIVE_MS = 15_000;

export interface QueuePortOptions {
  readonly queue: QueueWorld;
  readonly line: Line;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly acceptorId: string;
  readonly onClaim: (sessionId: string) => void;
}

function apiFailure(draw: Draw): ApiError {
  const status = draw.pick([500, 503, 429, undefined]);
  return new ApiError(`no answer to speak of (${status ?? 'reset'})`, status === undefined ? {} : { status });
}

export function queuePort(options: QueuePortOptions): OutpostsApi {
  const { queue, line, acceptorId } = options;
  const ask = <T>(operation: string, subject: string, call: Call, effect: () => T): Promise<T> =>
    line.call(call, {
      operation: `api.${operation}`,
      subject,
      latencyMs: LATENCY,
      reach: 'network',
      effect,
      failure: apiFailure,
    });
  return {
    acceptorId,
    list: (query, call) =>
      ask('list', query.phase ?? 'all', call, () => {
        const after = query.cursor === undefined ? 0 : Number(query.cursor);
        const rows = [...queue.rows.values()]
          .filter((row) => row.seq > after && (query.phase === undefined || row.phase === query.phase))
          .sort((left, right) => left.seq - right.seq);
        const page = rows.slice(0, queue.habits.pageSize);
        const hasNext = rows.length > page.length;
        const last = hasNext ? page.at(-1)?.seq : queue.seq;
        return {
          entries: page.map((row) => queue.entryOf(row)),
          hasNext,
          skipped: 0,
          ...(last === undefined ? {} : { cursor: String(last) }),
        };
      }),
    watch: (cursor, call) => watch(options, cursor, call),
    get: (sessionId, call) =>
      ask('get', sessionId, call, () => {
        const row = queue.rows.get(sessionId);
        return row === undefined ? undefined : queue.entryOf(row);
      }),
    claim: (sessionId, call) =>
      ask('claim', sessionId, call, () => {
        options.onClaim(sessionId);
        const result = queue.claim(sessionId, acceptorId);
        if (result === 'lost' || result === 'absent') return { kind: result };
        const row = queue.rows.get(sessionId);
        if (row === undefined) return { kind: 'absent' as const };
        const entry = queue.entryOf(row);
        if (result === 'held') return { kind: 'held' as const, entry };
        return {
          kind: 'claimed' as const,
          grant: {
            entry,
            deadline: row.claimDeadline ?? 0,
            connectToken: new Secret(result.token),
            gatewayUrl: 'https://gateway.test',
          },
        };
      }),
    release: (sessionId, call) => ask('release', sessionId, call, () => queue.release(sessionId, acceptorId)),
  };
}

/** One stream of events: at least once, from the cursor on, until the server ends it. */
async function* watch(
  options: QueuePortOptions,
  cursor: string | undefined,
  call: Call,
): AsyncGenerator<QueueEvent> {
  const { queue, line, faults, scheduler } = options;
  const expired = faults.chance('watch-expired', line.daemon, faults.intensity.watch / 20);
  await line.call(call, {
    operation: 'api.watch',
    subject: '-',
    latencyMs: LATENCY,
    reach: 'network',
    effect: () => {
      if (expired !== undefined) throw new ApiError('the cursor is too old', { status: 410 });
    },
    failure: apiFailure,
  });
  const inbox = new Inbox(call.signal);
  const overlap = scheduler.now % 3;
  let sent = Math.max(0, (cursor === undefined ? 0 : Number(cursor)) - overlap);
  let mood: 'good' | 'silent' | 'withholding' = 'good';
  const stop = queue.onChange(() => pump());
  const pump = (): void => {
    if (!line.life.alive) {
      stop();
      return;
    }
    // The log has one change per number.
    for (const change of queue.log.slice(sent)) {
      sent = change.seq;
      const event: QueueEvent = {
        ...(change.kind === 'changed'
          ? { kind: 'changed' as const, entry: change.entry }
          : {
              kind: 'deleted' as const,
              sessionId: change.entry.sessionId,
              ...(queue.habits.deletedCarriesEntry ? { entry: change.entry } : {}),
            }),
        cursor: String(change.seq),
      };
      deliver(event);
    }
  };
  const deliver = (event: QueueEvent): void => {
    const bad = faults.chance('watch', line.daemon, faults.intensity.watch);
    const fault = bad?.pick(['cut', 'silent', 'withhold', 'double', 'reorder', 'malformed'] as const);
    if (fault === 'silent') mood = 'silent';
    if (fault === 'withhold') mood = 'withholding';
    if (mood !== 'good') return;
    if (fault === 'cut') {
      inbox.fail(new ApiError('watch: broken off'));
      return;
    }
    const wait = fault === 'reorder' ? 3_000 : 20;
    const seen: QueueEvent =
      fault === 'malformed' && event.kind !== 'keepalive'
        ? {
            kind: 'skipped',
            reason: 'malformed',
            ...(event.cursor === undefined ? {} : { cursor: event.cursor }),
          }
        : event;
    scheduler.after(wait, () => inbox.put(seen));
    if (fault === 'double') scheduler.after(wait + 500, () => inbox.put(seen));
  };
  const beat = (): void => {
    if (inbox.closed || !line.life.alive) return;
    if (mood !== 'silent') inbox.put({ kind: 'keepalive' });
    scheduler.after(KEEPALIVE_MS, beat);
  };
  const end = scheduler.after(WATCH_LIFE_MS, () => inbox.end());
  pump();
  beat();
  try {
    for (;;) {
      const event = await inbox.take(line);
      if (event === undefined) return;
      yield event;
    }
  } finally {
    stop();
    end.cancel();
    inbox.end();
  }
}

/** Events on their way to one reader. */
class Inbox {
  readonly #waiting: QueueEvent[] = [];
  #wake: (() => void) | undefined;
  #failure: unknown;
  closed = false;

  constructor(signal: AbortSignal) {
    const close = (): void => {
      this.fail(signal.reason ?? new DvoError('aborted', 'watch closed'));
    };
    if (signal.aborted) close();
    else signal.addEventListener('abort', close, { once: true });
  }

  put(event: QueueEvent): void {
    if (this.closed) return;
    this.#waiting.push(event);
    this.#wake?.();
  }

  fail(error: unknown): void {
    if (this.closed) return;
    this.#failure = error;
    this.end();
  }

  end(): void {
    this.closed = true;
    this.#wake?.();
  }

  async take(line: Line): Promise<QueueEvent | undefined> {
    for (;;) {
      if (!line.life.alive) return await new Promise(() => undefined);
      const next = this.#waiting.shift();
      if (next !== undefined) return next;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.closed) return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
