/** From what the motor knows, or from the index alone, to the status view. Reads only, and quickly: it is asked every second. */
import type { SessionView, StatusView } from '../ops/view.ts';
import {
  NO_FACTS,
  type Facts,
  type SessionEvent,
  type SessionRecord,
  type Stage,
} from '../session/session.ts';
import { adviceFor, hinted, PAUSED } from './advice.ts';
import type { History } from './history.ts';
import type { Motor } from './motor.ts';
import { holdsSlot } from './records.ts';
import { waitingLine } from './waiting.ts';

/** Rows of the waiting line that are shown: enough to see who is next and why nothing moves. */
const MOST_WAITING = 200;
const MOST_ENDED = 20;

export interface DaemonFacts {
  readonly version: string;
  readonly provider: string;
  readonly startedAt: number;
  readonly ready: { readonly ok: boolean; readonly reasons: readonly string[] };
}

export interface StatusParts {
  readonly outpostId: string;
  readonly acceptorId: string;
  readonly now: number;
  /** The last net under messages that others wrote. */
  readonly scrub: (text: string) => string;
}

/** Of a running daemon. */
export function statusOf(motor: Motor, daemon: DaemonFacts, parts: StatusParts): StatusView {
  const { gate, records, history } = motor;
  const line = waitingLine(motor, parts.scrub);
  return {
    ...head(parts),
    daemon: {
      ...daemon,
      ready: { ok: daemon.ready.ok, reasons: daemon.ready.reasons.map(parts.scrub) },
      admission: [...gate.pauses].map(([reason, detail]) => ({
        reason,
        detail: parts.scrub(detail),
        ...hinted(PAUSED[reason]),
      })),
    },
    slots: { used: gate.used, max: gate.max },
    sessions: sessionViews(records.entries(), history, parts, (sessionId) => motor.facts(sessionId)),
    waiting: line.slice(0, MOST_WAITING),
    waitingCount: line.length,
    ended: endedViews(history),
  };
}

/** Without a daemon: what the index and the history on disk say. Nothing is known of the machines or the queue. */
export function statusOfIndex(
  index: { entries(): Iterable<readonly [string, SessionRecord]> },
  history: History,
  parts: StatusParts,
): StatusView {
  const sessions = sessionViews(index.entries(), history, parts, () => undefined);
  const used = [...index.entries()].filter(([, record]) => holdsSlot(record)).length;
  return { ...head(parts), slots: { used }, sessions, waiting: [], ended: endedViews(history) };
}

function head({ now, outpostId, acceptorId }: StatusParts) {
  return { at: now, outpostId, acceptorId };
}

const ORDER: readonly Stage[] = [
  'serving',
  'preparing',
  'provisioning',
  'claimed',
  'suspending',
  'terminating',
  'suspended',
];

function sessionViews(
  records: Iterable<readonly [string, SessionRecord]>,
  history: History,
  parts: StatusParts,
  factsOf: (sessionId: string) => Facts | undefined,
): SessionView[] {
  const views: SessionView[] = [];
  for (const [name, record] of records) {
    views.push(sessionView(name, record, factsOf(record.sessionId) ?? NO_FACTS, history.of(name), parts));
  }
  return views.sort(
    (left, right) =>
      ORDER.indexOf(left.stage) - ORDER.indexOf(right.stage) ||
      left.createdAt - right.createdAt ||
      (left.name < right.name ? -1 : 1),
  );
}

function sessionView(
  name: string,
  record: SessionRecord,
  facts: Facts,
  events: readonly SessionEvent[],
  { scrub }: StatusParts,
): SessionView {
  const { sandboxId, lifetimeEndsAt, archive, lastError } = record;
  return {
    sessionId: record.sessionId,
    name,
    stage: record.stage,
    since: record.stageSince,
    createdAt: record.createdAt,
    ...(sandboxId === undefined ? {} : { sandboxId }),
    sandbox: facts.sandbox,
    remote: facts.remote,
    ...(lifetimeEndsAt === undefined ? {} : { lifetimeEndsAt }),
    restarts: Math.max(0, record.launches - 1),
    ...(archive === undefined
      ? {}
      : { archive: { snapshotId: archive.snapshotId, takenAt: archive.takenAt } }),
    ...(lastError === undefined
      ? {}
      : {
          lastError: {
            ...lastError,
            message: scrub(lastError.message),
            ...hinted(adviceFor(lastError.step)),
          },
        }),
    ...(record.order === undefined ? {} : { order: record.order }),
    events: [...events],
  };
}

function endedViews(history: History): NonNullable<StatusView['ended']> {
  return history
    .ended()
    .slice(0, MOST_ENDED)
    .map(([name, { sessionId, events, endedAt = 0 }]) => ({ sessionId, name, endedAt, events: [...events] }));
}
