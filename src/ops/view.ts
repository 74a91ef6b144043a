/**
 * What the daemon shows of itself: the document behind `GET /api/status`, `dvo status` and the page. Plain data, safe to
 * show: no secret ever enters it. Times are milliseconds since the epoch.
 */
import { z } from 'zod';
import { ORDERS, STAGES } from '../session/session.ts';

const time = z.number();

/** One moment in a session's life. `what` is a constant message; `detail` is for people. */
const SESSION_EVENT = z.object({
  at: time,
  what: z.string(),
  detail: z.string().exactOptional(),
  /** The stage that was entered. */
  stage: z.enum(STAGES).exactOptional(),
  /** The same happened so many times in a row, last at `lastAt`. */
  times: z.number().exactOptional(),
  lastAt: time.exactOptional(),
});

export const SESSION_VIEW = z.object({
  sessionId: z.string(),
  /** The sandbox's deterministic `dvo-…` name. */
  name: z.string(),
  stage: z.enum(STAGES),
  since: time,
  createdAt: time,
  sandboxId: z.string().exactOptional(),
  /** What the last look at the machine showed; `unknown` without a daemon. */
  sandbox: z.string(),
  remote: z.string(),
  lifetimeEndsAt: time.exactOptional(),
  /** Launches of the remote beyond the first since it last ran healthily. */
  restarts: z.number(),
  archive: z.object({ snapshotId: z.string(), takenAt: time }).exactOptional(),
  /** `hint`: what to do about it. It stays after the trouble has passed; compare `at` with `since`. */
  lastError: z
    .object({ at: time, step: z.string(), message: z.string(), hint: z.string().exactOptional() })
    .exactOptional(),
  /** Given by hand and not carried out yet. */
  order: z.enum(ORDERS).exactOptional(),
  /** Oldest first; the last hundred. */
  events: z.array(SESSION_EVENT),
});
export type SessionView = z.infer<typeof SESSION_VIEW>;

/** A session in the queue that is not being served, and why, in words. */
export const WAITING_VIEW = z.object({
  sessionId: z.string(),
  createdAt: time.exactOptional(),
  why: z.string(),
  /** One of a closed list: paused, no-slot, next, or why this session is refused. */
  reason: z.string().exactOptional(),
  /** When it is looked at again, if that is known. */
  until: time.exactOptional(),
  hint: z.string().exactOptional(),
});
export type WaitingView = z.infer<typeof WAITING_VIEW>;

/** A session whose record is gone: what became of it. */
const ENDED_VIEW = z.object({
  sessionId: z.string(),
  name: z.string(),
  endedAt: time,
  events: z.array(SESSION_EVENT),
});

/** How full it was at one moment. */
const LOAD_SAMPLE = z.object({ at: time, used: z.number(), max: z.number(), waiting: z.number() });
export type LoadSample = z.infer<typeof LOAD_SAMPLE>;

export const STATUS_VIEW = z.object({
  at: time,
  outpostId: z.string(),
  acceptorId: z.string(),
  /** Undefined: no daemon runs, and this was read from the index. */
  daemon: z
    .object({
      version: z.string(),
      provider: z.string(),
      startedAt: time,
      ready: z.object({ ok: z.boolean(), reasons: z.array(z.string()) }),
      /** Why nothing new is claimed; empty: admission is open. */
      admission: z.array(
        z.object({ reason: z.string(), detail: z.string(), hint: z.string().exactOptional() }),
      ),
    })
    .exactOptional(),
  slots: z.object({ used: z.number(), max: z.number().exactOptional() }),
  /** Serving first, oldest first within a stage. */
  sessions: z.array(SESSION_VIEW),
  /** The first of the line, in its order; `waitingCount` is the length of the whole line. */
  waiting: z.array(WAITING_VIEW),
  waitingCount: z.number().exactOptional(),
  /** The latest first. */
  ended: z.array(ENDED_VIEW).exactOptional(),
  /** The last hour, oldest first. Only with a daemon, which remembers it while it runs. */
  load: z.array(LOAD_SAMPLE).exactOptional(),
});
export type StatusView = z.infer<typeof STATUS_VIEW>;
