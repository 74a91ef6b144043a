/**
 * What happened to each session: a ring of events per session, for people. In memory at once; state/history-file.ts keeps it
 * beside the index, not in it: nothing is decided by it, so no step waits for it and losing it loses nothing else.
 */
import type { Clock } from '../lib/clock.ts';
import { event, withEvent } from '../session/events.ts';
import type { QueueEntry, SessionEvent, SessionHistory } from '../session/session.ts';
import { Table } from '../state/table.ts';

/** Sessions whose record is gone stay readable ("what became of it?"); beyond these the oldest go. */
const MOST_ENDED = 50;

export class History {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #table = new Table<SessionHistory>();
  /** Names of ended sessions, oldest first. */
  readonly #ended = new Set<string>();
  #version = 0;
  /** Applied to every detail before it is kept: a second net under the callers' own care with secrets. */
  scrub: (text: string) => string = (text) => text;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Changes with the content. */
  get version(): number {
    return this.#version;
  }

  /** Oldest first. */
  of(name: string): readonly SessionEvent[] {
    return this.#table.get(name)?.events ?? [];
  }

  /** Sessions that have no record any more, the latest first. */
  ended(): readonly (readonly [string, SessionHistory])[] {
    return [...this.#ended].toReversed().flatMap((name) => {
      const row = this.#table.get(name);
      return row === undefined ? [] : [[name, row] as const];
    });
  }

  /** A session that had ended begins anew with this. */
  note(name: string, sessionId: string, events: readonly SessionEvent[]): void {
    if (events.length === 0) return;
    let ring = this.of(name);
    for (const one of events) {
      ring = withEvent(ring, one.detail === undefined ? one : { ...one, detail: this.scrub(one.detail) });
    }
    this.#ended.delete(name);
    this.#put(name, { sessionId, events: ring });
  }

  /** Since when the session had been waiting that is taken on now; a wake is dated by its entry's last change. */
  noteQueued(name: string, sessionId: string, entry: QueueEntry | undefined): void {
    const asleepAt = this.of(name).findLast(({ stage }) => stage === 'suspended')?.at ?? 0;
    const at = [entry?.createdAt, entry?.updatedAt].find((time) => time !== undefined && time > asleepAt);
    if (at !== undefined) this.note(name, sessionId, [event(at, 'queued')]);
  }

  /** The session's record is gone. */
  end(name: string): void {
    const row = this.#table.get(name);
    if (row === undefined || this.#ended.has(name)) return;
    const endedAt = this.#clock.now();
    this.#end(name, { ...row, events: withEvent(row.events, event(endedAt, 'let go')), endedAt });
  }

  /**
   * Takes up what was kept on disk.
   * @param alive whether the session has a record; one that lost it while nobody looked has ended
   */
  restore(rows: Iterable<readonly [string, SessionHistory]>, alive: (name: string) => boolean): void {
    const ended: (readonly [string, SessionHistory & { readonly endedAt: number }])[] = [];
    for (const [name, row] of rows) {
      const { endedAt: _, ...rest } = row;
      if (alive(name)) this.#put(name, rest);
      else ended.push([name, { ...row, endedAt: row.endedAt ?? row.events.at(-1)?.at ?? 0 }]);
    }
    for (const [name, row] of ended.sort(([, left], [, right]) => left.endedAt - right.endedAt)) {
      this.#end(name, row);
    }
  }

  /** All rows as one JSON object, in pieces to be joined. */
  json(): Iterable<Buffer> {
    return this.#table.json();
  }

  #put(name: string, row: SessionHistory): void {
    if (this.#table.put(name, row)) this.#version += 1;
  }

  #end(name: string, row: SessionHistory): void {
    this.#put(name, row);
    this.#ended.add(name);
    for (const oldest of this.#ended) {
      if (this.#ended.size <= MOST_ENDED) break;
      this.#ended.delete(oldest);
      this.#table.delete(oldest);
    }
  }
}
