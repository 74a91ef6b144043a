/**
 * The queue as last seen: an informer. A complete list, then the watch from the list's cursor; beside it a light poll
 * and a periodic complete list, because a watch has been seen to stay open and yet withhold events. Events and reads
 * only change sightings; what follows from them is decided elsewhere.
 */
import { backoffMs, WATCH_BACKOFF } from '../lib/backoff.ts';
import type { Clock, Random } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError, toError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import { LONGEST_HINT_MS } from '../lib/retry.ts';
import type { QueueEntry, Sighting } from '../session/session.ts';
import { CursorKeeper, type CursorStore } from './cursor-keeper.ts';
import { ApiError, type OutpostsApi, type QueueEvent } from './outposts.ts';
import { Sightings, type SightingsOptions } from './sightings.ts';

export interface Queue {
  /** True once a complete list has been read since the start. Before that, nothing counts as absent. */
  readonly synced: boolean;
  sighting(sessionId: string): Sighting;
  /** Entries whose gist is `available`, oldest first (by createdAt, then by session id). */
  available(): Iterable<QueueEntry>;
  /** Reads one entry now (a GET) and counts the look. Throws what the API throws; then nothing is counted. */
  look(sessionId: string, call: Call): Promise<Sighting>;
  /** Folds in an entry that came by another way (a claim's answer). */
  fold(entry: QueueEntry): void;
  /** Our claim on it is gone, or its entry left the queue, as a claim's or release's answer said. */
  forget(sessionId: string): void;
}

/** What readiness and admission need to know of the informer. */
export interface QueueHealth {
  readonly synced: boolean;
  /** The current trouble in words. */
  readonly problem?: string;
  /** Devin refuses our token. */
  readonly unauthorized: boolean;
  readonly watchConnected: boolean;
}

export interface QueueSettings {
  readonly pollIntervalMs: number;
  readonly resyncIntervalMs: number;
  readonly watchIdleTimeoutMs: number;
  /** Limit of one page's read. */
  readonly callMs: number;
}

export interface QueueOptions extends SightingsOptions {
  readonly api: OutpostsApi;
  readonly random: Random;
  readonly log: Logger;
  readonly cursor: CursorStore;
  readonly settings: QueueSettings;
  /** The first complete list has been read. */
  readonly onSynced: () => void;
  readonly onReconnect: (reason: WatchEnd) => void;
  readonly beat: (task: Task) => void;
}

type Task = 'watch' | 'poll' | 'resync';
const TASKS: readonly Task[] = ['watch', 'poll', 'resync'];

/** ended: the server closed it, which is routine · idle: it went silent · withheld: a read knew more than it told. */
export type WatchEnd = 'ended' | 'idle' | 'withheld' | 'failed' | 'expired';

/** A watch that lasted this long was a good one, whatever it carried. */
const HEALTHY_MS = 2_000;
/** 20,000 entries. A list that goes on for ever is not a list. */
const MOST_PAGES = 100;
/** Up to this many waiting entries the poll reads them all; beyond, only those changed since the last event. */
const SMALL_QUEUE = 200;

export class QueueInformer implements Queue {
  readonly #options: QueueOptions;
  readonly #clock: Clock;
  readonly #sightings: Sightings;
  readonly #cursor: CursorKeeper;
  #problem: string | undefined;
  #unauthorized = false;
  #connected = false;
  /** A read showed something that the watch had not told; when. */
  #withheldSince: number | undefined;
  #replaceWatch: ((end: WatchEnd) => void) | undefined;

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#sightings = new Sightings(options);
    this.#cursor = new CursorKeeper(options);
  }

  get synced(): boolean {
    return this.#sightings.complete;
  }

  health(): QueueHealth {
    const problem = this.#problem === undefined ? {} : { problem: this.#problem };
    return {
      synced: this.synced,
      unauthorized: this.#unauthorized,
      watchConnected: this.#connected,
      ...problem,
    };
  }

  sighting(sessionId: string): Sighting {
    return this.#sightings.get(sessionId);
  }

  available(): Iterable<QueueEntry> {
    return this.#sightings.line.entries();
  }

  async look(sessionId: string, call: Call): Promise<Sighting> {
    const entry = await this.#options.api.get(sessionId, call);
    if (entry === undefined) this.#sightings.absent(sessionId, 'read');
    else this.#sightings.seen(entry, 'read');
    return this.sighting(sessionId);
  }

  fold(entry: QueueEntry): void {
    this.#sightings.seen(entry, 'answer');
  }

  forget(sessionId: string): void {
    this.#sightings.forget(sessionId);
  }

  /** Keeps the picture true until aborted. Whatever happens upstream, it goes on. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#cursor.load();
    await this.#untilListed(signal);
    if (signal.aborted) return;
    this.#options.onSynced();
    await Promise.all([this.#watchLoop(signal), this.#pollLoop(signal), this.#resyncLoop(signal)]);
    await this.#cursor.close();
  }

  async #untilListed(signal: AbortSignal): Promise<void> {
    for (let failures = 1; !signal.aborted; failures += 1) {
      for (const task of TASKS) this.#options.beat(task);
      const error = await this.#attempt('list', () => this.#list(signal), signal);
      if (error === undefined) return;
      await this.#pause(TASKS, { failures, error }, signal);
    }
  }

  async #resyncLoop(signal: AbortSignal): Promise<void> {
    let failures = 0;
    let error: Error | undefined;
    while (!signal.aborted) {
      if (error === undefined) await this.#sleep(this.#options.settings.resyncIntervalMs, signal);
      else await this.#pause(['resync'], { failures, error }, signal);
      if (signal.aborted) return;
      this.#options.beat('resync');
      error = await this.#attempt('list', () => this.#list(signal), signal);
      failures = error === undefined ? 0 : failures + 1;
    }
  }

  async #pollLoop(signal: AbortSignal): Promise<void> {
    let failures = 0;
    let error: Error | undefined;
    while (!signal.aborted) {
      if (error === undefined) await this.#sleep(this.#options.settings.pollIntervalMs, signal);
      else await this.#pause(['poll'], { failures, error }, signal);
      if (signal.aborted) return;
      this.#options.beat('poll');
      this.#judgeWatch();
      error = await this.#attempt('poll', () => this.#poll(signal), signal);
      failures = error === undefined ? 0 : failures + 1;
    }
  }

  /** Every page, to the end. Only then is anything absent. */
  async #list(signal: AbortSignal): Promise<void> {
    this.#sightings.beginList();
    const cursor = await this.#pages({}, signal);
    this.#sightings.endList();
    if (!this.#connected && cursor !== undefined) this.#cursor.advance(cursor);
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const since = this.#sightings.line.size >= SMALL_QUEUE ? this.#cursor.value : undefined;
    await this.#pages({ phase: 'pending', ...(since === undefined ? {} : { cursor: since }) }, signal);
  }

  /** Reads on while there are pages; answers the last cursor. A cursor that comes again would never end. */
  async #pages(
    query: { readonly phase?: 'pending'; readonly cursor?: string },
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { api, settings } = this.#options;
    const call = { timeoutMs: settings.callMs, signal };
    const visited = new Set<string>();
    // What was there before the watch was heard of is no news that it withholds.
    const watched = this.#connected;
    let { cursor } = query;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      const {
        entries,
        hasNext,
        cursor: next,
      } = await api.list({ ...query, ...(cursor === undefined ? {} : { cursor }) }, call);
      for (const entry of entries) {
        if (this.#sightings.seen(entry, 'read') && watched) this.#withheldSince ??= this.#clock.now();
      }
      if (next !== undefined && next === cursor && hasNext)
        throw new ApiError('list: the cursor does not move on');
      cursor = next ?? cursor;
      if (!hasNext) return cursor;
      if (next === undefined) throw new ApiError('list: there are more pages, but no cursor to them');
      if (visited.has(next)) throw new ApiError('list: the pages go in a circle');
      visited.add(next);
    }
    throw new ApiError(`list: more than ${MOST_PAGES} pages`);
  }

  /** News that only a read brought, and no event since: the watch is open and tells nothing. */
  #judgeWatch(): void {
    if (this.#withheldSince === undefined || !this.#connected) return;
    if (this.#clock.now() - this.#withheldSince < this.#options.settings.pollIntervalMs) return;
    this.#withheldSince = undefined;
    this.#replaceWatch?.('withheld');
  }

  async #watchLoop(signal: AbortSignal): Promise<void> {
    const { log, onReconnect, beat } = this.#options;
    let failures = 0;
    while (!signal.aborted) {
      beat('watch');
      const startedAt = this.#clock.now();
      const { end, useful, error } = await this.#watchOnce(signal);
      this.#connected = false;
      if (signal.aborted) return;
      onReconnect(end);
      failures = useful || this.#clock.now() - startedAt >= HEALTHY_MS ? 0 : failures + 1;
      const details = { end, why: error === undefined ? undefined : describeError(error), failures };
      if (end === 'ended' && failures < 2) log.debug('watch ended; opening it again', details);
      else log.warn('watch lost; opening it again', details);
      const unlisted =
        end === 'expired' ? await this.#attempt('list', () => this.#list(signal), signal) : undefined;
      const trouble = { failures, error: unlisted ?? error };
      if (failures > 0 || askedMs(trouble.error) > 0) await this.#pause(['watch'], trouble, signal);
    }
  }

  async #watchOnce(
    signal: AbortSignal,
  ): Promise<{ readonly end: WatchEnd; readonly useful: boolean; readonly error?: unknown }> {
    const { api, settings } = this.#options;
    const closing = new AbortController();
    let end: WatchEnd = 'ended';
    const close = (reason: WatchEnd): void => {
      end = reason;
      closing.abort(new DvoError('aborted', `watch closed: ${reason}`));
    };
    this.#replaceWatch = close;
    const stop = (): void => close('ended');
    signal.addEventListener('abort', stop, { once: true });
    const resumed = this.#cursor.value;
    const stream = api.watch(resumed, { timeoutMs: settings.callMs, signal: closing.signal });
    const events = stream[Symbol.asyncIterator]();
    let useful = false;
    try {
      for (;;) {
        const next = await this.#nextEvent(events, closing.signal);
        if (next.done === true) return { end, useful };
        this.#connected = true;
        useful = this.#absorb(next.value) || useful;
      }
    } catch (error) {
      if (closing.signal.aborted) return { end, useful };
      if (error instanceof DvoError && error.code === 'deadline') return { end: 'idle', useful };
      this.#noteProblem('watch', error);
      return { end: isExpired(error) ? 'expired' : 'failed', useful, error };
    } finally {
      signal.removeEventListener('abort', stop);
      this.#replaceWatch = undefined;
      closing.abort();
    }
  }

  async #nextEvent(
    events: AsyncIterator<QueueEvent>,
    signal: AbortSignal,
  ): Promise<IteratorResult<QueueEvent>> {
    const limit = { timeoutMs: this.#options.settings.watchIdleTimeoutMs, signal };
    return await withDeadline(this.#clock, 'watch', limit, () => events.next());
  }

  /** True for an event that moved the cursor on: a repeated last one proves nothing. */
  #absorb(event: QueueEvent): boolean {
    if (event.kind === 'keepalive') return false;
    this.#withheldSince = undefined;
    if (event.kind === 'changed') this.#sightings.seen(event.entry, 'event');
    if (event.kind === 'deleted') {
      if (event.entry !== undefined) this.#sightings.seen(event.entry, 'event');
      this.#sightings.absent(event.sessionId, 'event');
    }
    // After the event was processed: a crash before this line sees it again.
    return event.cursor !== undefined && this.#cursor.advance(event.cursor);
  }

  /** What went wrong, or undefined. */
  async #attempt(
    operation: string,
    work: () => Promise<void>,
    signal: AbortSignal,
  ): Promise<Error | undefined> {
    try {
      await work();
      this.#problem = undefined;
      this.#unauthorized = false;
      return undefined;
    } catch (error) {
      if (!signal.aborted) this.#noteProblem(operation, error);
      return toError(error);
    }
  }

  #noteProblem(operation: string, error: unknown): void {
    const problem = describeError(error);
    if (problem !== this.#problem)
      this.#options.log.warn('queue not readable', { operation, error: problem });
    this.#problem = problem;
    if (error instanceof ApiError && error.unauthorized) this.#unauthorized = true;
  }

  /** Longer with each failure in a row, and as long as Devin asked for. */
  async #pause(
    tasks: readonly Task[],
    trouble: { readonly failures: number; readonly error: unknown },
    signal: AbortSignal,
  ): Promise<void> {
    const own = backoffMs(WATCH_BACKOFF, trouble.failures, this.#options.random.next());
    let left = Math.max(own, Math.min(askedMs(trouble.error), LONGEST_HINT_MS));
    // In pieces, and heard of between them: a loop that waits because it was asked to has not stalled.
    for (; left > 0 && !signal.aborted; left -= WATCH_BACKOFF.maxMs) {
      for (const task of tasks) this.#options.beat(task);
      await this.#sleep(Math.min(left, WATCH_BACKOFF.maxMs), signal);
    }
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** How long Devin asked to be left alone, in milliseconds. */
function askedMs(error: unknown): number {
  return error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
}

/** The server knows our cursor no more. */
function isExpired(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 400 || error.status === 410);
}
