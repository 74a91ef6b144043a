/** The index file's shape. What cannot be read is set aside by session-index.ts, never guessed at. */
import { z } from 'zod';
import { ORDERS, STAGES, type FailureHistory, type SessionRecord } from '../session/session.ts';

const time = z.number();
const archive = z.object({
  snapshotId: z.string(),
  takenAt: time,
  sandboxId: z.string(),
  last: z.literal(true).exactOptional(),
});

export const RECORD: z.ZodType<SessionRecord> = z.object({
  sessionId: z.string(),
  stage: z.enum(STAGES),
  stageSince: time,
  attempt: z.number(),
  claimKind: z.enum(['new', 'resume', 'unknown']),
  createdAt: time,
  updatedAt: time,
  failures: z.number(),
  launches: z.number(),
  createAskedAt: time.exactOptional(),
  createTag: z.string().exactOptional(),
  sandboxId: z.string().exactOptional(),
  egress: z.array(z.string()).exactOptional(),
  lifetimeEndsAt: time.exactOptional(),
  fresh: z.boolean().exactOptional(),
  startEmpty: z.boolean().exactOptional(),
  preparedSha: z.string().exactOptional(),
  remote: z
    .object({
      launchId: z.string(),
      sha: z.string().exactOptional(),
      launchedAt: time,
      pid: z.number().exactOptional(),
    })
    .exactOptional(),
  servedSince: time.exactOptional(),
  ending: z.enum(['suspend', 'give-up', 'roll-over', 'yield', 'drain', 'expire', 'release']).exactOptional(),
  remoteStoppedAt: time.exactOptional(),
  ownerConfirmed: z.boolean().exactOptional(),
  takenFrom: z.string().exactOptional(),
  destroyAsked: z.literal(true).exactOptional(),
  archive: archive.exactOptional(),
  archiving: z
    .object({
      sandboxId: z.string(),
      askedAt: time,
      before: z.array(z.string()),
      failures: z.number(),
      retryAt: time.exactOptional(),
      unsupported: z.boolean().exactOptional(),
    })
    .exactOptional(),
  obsolete: z.array(z.string()).exactOptional(),
  setAside: z.array(z.string()).exactOptional(),
  refusals: z.number().exactOptional(),
  kept: z.boolean().exactOptional(),
  lastError: z.object({ at: time, step: z.string(), message: z.string() }).exactOptional(),
  order: z.enum(ORDERS).exactOptional(),
  orderedAt: time.exactOptional(),
});

export const FAILURES: z.ZodType<FailureHistory> = z.object({
  sessionId: z.string(),
  attempts: z.number(),
  coolUntil: time,
  reason: z.string(),
  byHand: z.literal(true).exactOptional(),
});

/** Passed on as it is: a copy would leave out a row named `__proto__` without a word. */
const rows = z.custom<Readonly<Record<string, unknown>>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
);

/** The document without judging its records one by one. */
export const INDEX_FILE = z.object({
  version: z.number(),
  outpostId: z.string(),
  acceptorId: z.string(),
  sessions: rows,
  failures: rows.default({}),
});
