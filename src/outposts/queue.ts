/** The queue as last seen: an informer. (Interface first; the implementation follows in this file.) */
import type { Call } from '../lib/deadline.ts';
import type { QueueEntry, Sighting } from '../session/session.ts';

export interface Queue {
  /** True once a complete list has been read since the start. Before that, nothing counts as absent. */
  readonly synced: boolean;
  /** How many complete lists have been read since the start; lets the janitor ask for one of its own. */
  readonly completeLists: number;
  sighting(sessionId: string): Sighting;
  /** Entries whose gist is `available`, oldest first (by createdAt, then by session id). */
  available(): Iterable<QueueEntry>;
  /** Sessions known to the queue with the gist `held`. */
  held(): Iterable<QueueEntry>;
  /** Reads one entry now (a GET) and counts the look. Throws what the API throws; then nothing is counted. */
  look(sessionId: string, call: Call): Promise<Sighting>;
  /** Reads the whole queue now. Throws when the list could not be read to its end. */
  relist(call: Call): Promise<void>;
  /** Folds in an entry that came by another way (a claim's answer). */
  fold(entry: QueueEntry): void;
  /** Notes that our claim on it is gone or its entry left the queue, as a claim's or release's answer said. */
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
  /** Milliseconds since the epoch. */
  readonly lastReadAt?: number;
}
