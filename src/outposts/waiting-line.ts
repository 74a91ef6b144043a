/** Pending entries, oldest first. Changing one costs a binary search, however many there are. */
import type { QueueEntry } from '../session/session.ts';

interface Place {
  readonly at: number;
  readonly sessionId: string;
}

export class WaitingLine {
  readonly #line: Place[] = [];
  readonly #entries = new Map<string, { readonly place: Place; readonly entry: QueueEntry }>();

  get size(): number {
    return this.#entries.size;
  }

  /** @param seenAt stands in for the age of an entry that does not tell it */
  put(entry: QueueEntry, seenAt: number): void {
    const known = this.#entries.get(entry.sessionId);
    const at = entry.createdAt ?? known?.place.at ?? seenAt;
    if (known?.place.at === at) {
      this.#entries.set(entry.sessionId, { place: known.place, entry });
      return;
    }
    this.remove(entry.sessionId);
    const place = { at, sessionId: entry.sessionId };
    this.#line.splice(this.#find(place), 0, place);
    this.#entries.set(entry.sessionId, { place, entry });
  }

  remove(sessionId: string): void {
    const known = this.#entries.get(sessionId);
    if (known === undefined) return;
    this.#entries.delete(sessionId);
    this.#line.splice(this.#find(known.place), 1);
  }

  *entries(): IterableIterator<QueueEntry> {
    for (const { sessionId } of this.#line) {
      const known = this.#entries.get(sessionId);
      if (known !== undefined) yield known.entry;
    }
  }

  /** The first index whose place is not before `place`. */
  #find(place: Place): number {
    let low = 0;
    let high = this.#line.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#line[middle];
      if (there !== undefined && isBefore(there, place)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isBefore(left: Place, right: Place): boolean {
  return left.at === right.at ? left.sessionId < right.sessionId : left.at < right.at;
}
