/** Changing a record: the only ways in which a new record is made from an old one. Pure. */
import type { Archive, QueueEntry, SessionRecord, Stage } from './session.ts';

export type Clearable = {
  [Key in keyof SessionRecord]-?: undefined extends SessionRecord[Key] ? Key : never;
}[keyof SessionRecord];

export interface Change {
  readonly set?: Partial<Omit<SessionRecord, 'sessionId' | 'createdAt' | 'updatedAt'>>;
  readonly clear?: readonly Clearable[];
}

type Draft = { -readonly [Key in keyof SessionRecord]: SessionRecord[Key] };

export function amend(record: SessionRecord, change: Change, now: number): SessionRecord {
  const next: Draft = { ...record, ...change.set, updatedAt: now };
  for (const key of change.clear ?? []) delete next[key];
  return next;
}

/** A stage is entered: failures are counted anew, and what only the old stage needs goes. */
export function enter(stage: Stage, now: number, change: Change = {}): Change {
  return { ...change, set: { failures: 0, ...change.set, stage, stageSince: now } };
}

/** What a person has ordered, once it is done. */
export const OF_THE_ORDER: readonly Clearable[] = ['order', 'orderedAt'];

/** That an archive could not be restored: when nothing has come after the empty start, the next one tries it again. */
export const OF_THE_RESTORE: readonly Clearable[] = ['startEmpty', 'refusals'];

/** What belongs to one sandbox and means nothing for the next. */
export const OF_THE_SANDBOX: readonly Clearable[] = [
  'sandboxId',
  'egress',
  'lifetimeEndsAt',
  'fresh',
  'preparedSha',
  'remote',
  'servedSince',
  'remoteStoppedAt',
  'ownerConfirmed',
  'takenFrom',
  'destroyAsked',
  'archiving',
  'ending',
  'kept',
  'createAskedAt',
  'createTag',
];

export function newRecord(
  entry: Pick<QueueEntry, 'sessionId' | 'kind'>,
  stage: Stage,
  attempt: number,
  now: number,
): SessionRecord {
  return {
    sessionId: entry.sessionId,
    stage,
    stageSince: now,
    attempt,
    claimKind: entry.kind,
    createdAt: now,
    updatedAt: now,
    failures: 0,
    launches: 0,
  };
}

/**
 * A newer archive takes the place of the old one, which becomes obsolete only now that the new one is recorded; unless the
 * session began empty, and the new one holds nothing of the old.
 */
export function archived(record: SessionRecord, archive: Archive): Change {
  const old = record.archive;
  const replaced = old === undefined || old.snapshotId === archive.snapshotId ? [] : [old.snapshotId];
  const aside = [...(record.setAside ?? []), ...replaced];
  const rest = record.startEmpty === true ? { setAside: aside } : withObsolete(record, replaced);
  return { set: { archive, ...rest }, clear: ['archiving', 'startEmpty'] };
}

/** Archives that nothing needs any more, with those that the record names already. */
export function withObsolete(
  record: SessionRecord,
  ids: readonly string[],
): { readonly obsolete?: readonly string[] } {
  const obsolete = [...new Set([...(record.obsolete ?? []), ...ids])];
  return obsolete.length > 0 ? { obsolete } : {};
}
