/**
 * What is known of every session, and how it changes with what is read. No I/O: the informer (queue.ts) feeds it.
 *
 * - An event of the watch starts a count of looks when the gist changes; only reads of our own raise it, because
 *   delivery is at-least-once and one flash may arrive three times; and only some time after the last that counted,
 *   because an event, a look and a list may all fall into one flash.
 * - A read older than what is known (both tell their `updatedAt`) changes nothing.
 * - `terminated` is final: a session that was terminated and then leaves the queue is not asleep.
 */
import type { Clock } from '../lib/clock.ts';
import { gistOf } from '../session/gist.ts';
import type { Gist, QueueEntry, Sighting } from '../session/session.ts';
import { WaitingLine } from './waiting-line.ts';

/** event: told by the watch, maybe again · read: asked for · answer: what a claim answered. */
export type Source = 'event' | 'read' | 'answer';

interface Row {
  readonly sighting: Sighting;
  /** The list during which it was last seen. */
  readonly touched: number;
  /** When a look was last counted. */
  readonly countedAt: number;
}

/** Three looks span two seconds: longer than a status was seen to flash. */
export const LOOKS_APART_MS = 1_000;

export interface SightingsOptions {
  readonly clock: Clock;
  readonly acceptorId: string;
  /** Looks count only this far from each other. */
  readonly looksApartMs: number;
  readonly onChange: (sessionId: string) => void;
  /** Sessions that stay known though they left the queue. */
  readonly keep: (sessionId: string) => boolean;
}

export class Sightings {
  readonly line = new WaitingLine();
  readonly #options: SightingsOptions;
  readonly #rows = new Map<string, Row>();
  #lists = 0;
  #complete = false;

  constructor(options: SightingsOptions) {
    this.#options = options;
  }

  /** True once a whole list has been read. */
  get complete(): boolean {
    return this.#complete;
  }

  get(sessionId: string): Sighting {
    const row = this.#rows.get(sessionId);
    if (row !== undefined) return row.sighting;
    return this.#complete ? { gist: 'absent', looks: 1 } : { gist: 'unseen', looks: 0 };
  }

  beginList(): void {
    this.#lists += 1;
  }

  /** Everything that the list, and no event meanwhile, has shown is absent. */
  endList(): void {
    this.#complete = true;
    for (const [sessionId, row] of this.#rows) {
      if (row.touched < this.#lists) this.absent(sessionId, 'read');
    }
  }

  /** True when this was news. */
  seen(entry: QueueEntry, source: Source): boolean {
    const known = this.#rows.get(entry.sessionId)?.sighting;
    if (known?.entry !== undefined && isOlder(entry, known.entry)) {
      this.#touch(entry.sessionId, source);
      return false;
    }
    const gist = known?.gist === 'terminated' ? 'terminated' : gistOf(entry, this.#options.acceptorId);
    return this.#set(entry.sessionId, gist, entry, source);
  }

  absent(sessionId: string, source: Source): boolean {
    const known = this.#rows.get(sessionId)?.sighting;
    if (!this.#options.keep(sessionId)) {
      this.line.remove(sessionId);
      if (!this.#rows.delete(sessionId)) return false;
      this.#options.onChange(sessionId);
      return true;
    }
    if (known?.gist === 'terminated') {
      this.#touch(sessionId, source);
      return false;
    }
    return this.#set(sessionId, 'absent', undefined, source);
  }

  /** Our claim is gone, by what a claim's or release's answer said. Who has it now, the next read tells. */
  forget(sessionId: string): void {
    const known = this.#rows.get(sessionId)?.sighting;
    if (known?.entry === undefined) return;
    const { acceptorId: _, updatedAt: __, ...rest } = known.entry;
    const gist = known.gist === 'terminated' ? 'terminated' : 'unclear';
    this.#set(sessionId, gist, { ...rest, phase: 'unknown' }, 'event');
  }

  #set(sessionId: string, gist: Gist, entry: QueueEntry | undefined, source: Source): boolean {
    const { clock, looksApartMs } = this.#options;
    const now = clock.now();
    const row = this.#rows.get(sessionId);
    const before = row?.sighting;
    const same = before?.gist === gist;
    const lastAt = same ? row?.countedAt : undefined;
    const counts = lastAt === undefined || (source === 'read' && now - lastAt >= looksApartMs);
    const looks = (same ? before.looks : 0) + (counts ? 1 : 0);
    // The watch tells old news again when it is reopened: an event says nothing of how things are now.
    const readAt = source === 'event' ? before?.readAt : now;
    const sighting = {
      gist,
      looks,
      ...(readAt === undefined ? {} : { readAt }),
      ...(entry === undefined ? {} : { entry }),
    };
    const countedAt = counts ? now : lastAt;
    this.#rows.set(sessionId, { sighting, touched: this.#lists, countedAt });
    if (gist === 'available' && entry !== undefined) this.line.put(entry, now);
    else this.line.remove(sessionId);
    const news = !same || differs(before.entry, entry);
    if (news || (looks !== before?.looks && NEEDS_LOOKS.has(gist))) this.#options.onChange(sessionId);
    return news;
  }

  #touch(sessionId: string, source: Source): void {
    const row = this.#rows.get(sessionId);
    if (row === undefined) return;
    const sighting =
      source === 'event' ? row.sighting : { ...row.sighting, readAt: this.#options.clock.now() };
    this.#rows.set(sessionId, { ...row, sighting, touched: this.#lists });
  }
}

const NEEDS_LOOKS: ReadonlySet<Gist> = new Set(['over', 'absent', 'elsewhere']);

function isOlder(entry: QueueEntry, known: QueueEntry): boolean {
  return entry.updatedAt !== undefined && known.updatedAt !== undefined && entry.updatedAt < known.updatedAt;
}

/** Whether the parts that decide anything differ; a time stamp alone is no news. */
function differs(before: QueueEntry | undefined, after: QueueEntry | undefined): boolean {
  if (before === undefined || after === undefined) return before !== after;
  return (
    before.phase !== after.phase ||
    before.status !== after.status ||
    before.acceptorId !== after.acceptorId ||
    before.platform !== after.platform ||
    before.kind !== after.kind ||
    before.remoteSha !== after.remoteSha ||
    JSON.stringify(before.networkPolicy) !== JSON.stringify(after.networkPolicy)
  );
}
