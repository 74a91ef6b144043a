/**
 * Archiving a workspace: while it is served (checkpoint) or after its remote was stopped (archive).
 *
 * Guarantees: what is asked for is on disk before it is asked; a limit that passes means "unknown", and the same
 * archive is looked for until it is READY or FAILED; an older archive is let go only after a newer one is READY and
 * recorded.
 */
import { isProviderError, type SnapshotInfo } from '../../sandboxes/provider.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import { archived, withObsolete } from '../../session/amend.ts';
import type { Archive, ArchiveIntent } from '../../session/session.ts';
import type { StepContext } from '../context.ts';
import type { StepResult } from './step.ts';

/** Between looks at an archive that is being made. */
const LOOK_MS = 5_000;
/** An archive that was asked for and shows nowhere after so many times the list's lag was never begun. */
const LAGS_UNTIL_VISIBLE = 6;
const RETRY_FIRST_MS = 5_000;
const RETRY_MAX_MS = 600_000;
/** Archives may be enabled for the account at any time; a session at work is to notice before it is lost. */
const UNSUPPORTED_FOR_MS = 3_600_000;

export async function archive(ctx: StepContext): Promise<StepResult> {
  const { sandboxId, archiving } = ctx.record;
  if (sandboxId === undefined) throw new DvoError('internal', 'there is no sandbox to archive');
  const pending =
    archiving?.sandboxId === sandboxId && archiving.retryAt === undefined ? archiving : undefined;
  return pending === undefined ? await ask(ctx, sandboxId) : await follow(ctx, pending);
}

async function ask(ctx: StepContext, sandboxId: string): Promise<StepResult> {
  const { provider, limits } = ctx.deps;
  const known = await provider.snapshots(sandboxId, ctx.call(limits.platformMs));
  // Begun by a daemon that has forgotten it. Two at a time would only slow each other down.
  if (known.some((snapshot) => snapshot.state === 'creating')) return { again: ctx.now + LOOK_MS };
  const intent: ArchiveIntent = {
    sandboxId,
    // After the moment the remote stopped, also when both fall on one millisecond.
    askedAt: Math.max(ctx.now, (ctx.record.remoteStoppedAt ?? 0) + 1),
    before: known.map((snapshot) => snapshot.id),
    failures: ctx.record.archiving?.failures ?? 0,
  };
  const broken = known.filter(({ state }) => state === 'failed').map(({ id }) => id);
  await ctx.save({ set: { archiving: intent, ...withObsolete(ctx.record, broken) } });
  ctx.log.info('archive asked for');
  try {
    const snapshot = await provider.snapshot(sandboxId, ctx.call(limits.snapshotMs));
    return await conclude(ctx, intent, snapshot);
  } catch (error) {
    if (isProviderError(error, 'unsupported')) return await unsupported(ctx, intent, error);
    if (isProviderError(error, 'archive-failed')) return await failed(ctx, intent, describeError(error));
    if (isProviderError(error, 'exhausted')) return await failed(ctx, intent, describeError(error));
    if (error instanceof DvoError && (error.code === 'deadline' || isProviderError(error, 'ambiguous'))) {
      ctx.deps.recorder.archive('unknown');
      ctx.log.warn('archive not answered in time; looking for it', { error: describeError(error) });
      return { again: ctx.now + LOOK_MS };
    }
    throw error;
  }
}

/** The archive was asked for, by this process or one before it, and the answer is not known. */
async function follow(ctx: StepContext, intent: ArchiveIntent): Promise<StepResult> {
  const { provider, limits } = ctx.deps;
  const all = await provider.snapshots(intent.sandboxId, ctx.call(limits.platformMs));
  const ours = all.filter((snapshot) => !intent.before.includes(snapshot.id));
  const ready = ours.find((snapshot) => snapshot.state === 'ready');
  if (ready !== undefined) return await conclude(ctx, intent, ready);
  if (ours.some((snapshot) => snapshot.state === 'creating')) return { again: ctx.now + LOOK_MS };
  const [broken] = ours;
  if (broken !== undefined) return await failed(ctx, intent, broken.reason ?? 'the archive failed', broken);
  const visibleBy = intent.askedAt + provider.capabilities.listLagMs * LAGS_UNTIL_VISIBLE;
  if (ctx.now < visibleBy) return { again: ctx.now + LOOK_MS };
  return await ask(ctx, intent.sandboxId);
}

/**
 * For a sandbox that was lost while its archive was being made: that archive may yet be the newest there is.
 * Answers `again` while it is still being made.
 */
export async function salvage(ctx: StepContext): Promise<StepResult> {
  const { sandboxId, archiving } = ctx.record;
  if (archiving === undefined || archiving.sandboxId !== sandboxId || archiving.retryAt !== undefined)
    return undefined;
  const all = await ctx.deps.provider.snapshots(sandboxId, ctx.call(ctx.deps.limits.platformMs));
  const ours = all.filter((snapshot) => !archiving.before.includes(snapshot.id));
  const ready = ours.find((snapshot) => snapshot.state === 'ready');
  if (ready !== undefined) return await conclude(ctx, archiving, ready);
  return ours.some((snapshot) => snapshot.state === 'creating') ? { again: ctx.now + LOOK_MS } : undefined;
}

/**
 * For a sandbox that was taken over and never archived here: what its holder before us archived is the session's newest
 * archive, and ours to delete.
 */
export async function inherit(ctx: StepContext, found: readonly NamedArchive[]): Promise<void> {
  const [newest] = readyOf(found);
  if (newest === undefined) return;
  await ctx.save(archived(ctx.record, newest));
  noteFound(ctx, newest);
}

/** Those that can be restored, newest first, by the platform's clock. */
export function readyOf(found: readonly NamedArchive[]): readonly Archive[] {
  return found
    .filter(({ snapshot }) => snapshot.state === 'ready')
    .map(({ snapshot, sandboxId }) => ({
      snapshotId: snapshot.id,
      takenAt: snapshot.createdAt ?? 0,
      sandboxId,
    }))
    .sort((left, right) => right.takenAt - left.takenAt);
}

export function noteFound(ctx: StepContext, { snapshotId, takenAt }: Archive): void {
  ctx.log.info('archive found by name', { archive: snapshotId, takenAt });
}

async function conclude(
  ctx: StepContext,
  intent: ArchiveIntent,
  snapshot: SnapshotInfo,
): Promise<StepResult> {
  if (snapshot.state !== 'ready')
    return await failed(ctx, intent, snapshot.reason ?? snapshot.state, snapshot);
  const { recorder } = ctx.deps;
  const made = { snapshotId: snapshot.id, takenAt: intent.askedAt, sandboxId: intent.sandboxId };
  await ctx.save(archived(ctx.record, made));
  recorder.archive('ready');
  ctx.log.info('archive ready', {
    archive: snapshot.id,
    sizeBytes: snapshot.sizeBytes,
    tookMs: ctx.now - intent.askedAt,
  });
  return undefined;
}

/** The sandbox and its work stay; the failure is visible; another archive is asked for later. */
async function failed(
  ctx: StepContext,
  intent: ArchiveIntent,
  why: string,
  broken?: SnapshotInfo,
): Promise<StepResult> {
  const failures = intent.failures + 1;
  const retryAt = ctx.now + Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** (failures - 1));
  await ctx.save({
    set: {
      archiving: { ...intent, failures, retryAt },
      lastError: { at: ctx.now, step: 'archive', message: why },
      ...withObsolete(ctx.record, broken === undefined ? [] : [broken.id]),
    },
  });
  ctx.deps.recorder.archive('failed');
  ctx.log.error('archive failed: the sandbox is kept', { why, failures, retryAt });
  return undefined;
}

async function unsupported(ctx: StepContext, intent: ArchiveIntent, error: unknown): Promise<StepResult> {
  const retryAt = ctx.now + UNSUPPORTED_FOR_MS;
  await ctx.save({ set: { archiving: { ...intent, unsupported: true, retryAt } } });
  ctx.deps.recorder.archive('unsupported');
  ctx.log.error('archives are not available to this account: suspended sessions keep their sandbox', {
    error: describeError(error),
  });
  return undefined;
}

/** An archive, and the sandbox whose volume is in it. */
export interface NamedArchive {
  readonly sandboxId: string;
  readonly snapshot: SnapshotInfo;
}

/** All archives, in every state, of the sandboxes under the session's name, whoever made them. */
export async function archivesByName(
  ctx: StepContext,
  /** Sandboxes that the platform may have forgotten, though not their archives. */
  also: readonly (string | undefined)[] = [],
): Promise<readonly NamedArchive[]> {
  const { provider, limits } = ctx.deps;
  const made = await provider.list({ tags: [ctx.lane.name], include: 'all' }, ctx.call(limits.platformMs));
  const found: NamedArchive[] = [];
  for (const sandboxId of new Set([...also, ...made.map(({ id }) => id)])) {
    if (sandboxId !== undefined) found.push(...(await archivesOf(ctx, sandboxId)));
  }
  return found;
}

/** All archives, in every state, of one sandbox. */
export async function archivesOf(ctx: StepContext, sandboxId: string): Promise<readonly NamedArchive[]> {
  const { provider, limits } = ctx.deps;
  const snapshots = await provider.snapshots(sandboxId, ctx.call(limits.platformMs));
  return snapshots.map((snapshot) => ({ sandboxId, snapshot }));
}

/** Deletes for good. One that is not there any more counts as deleted. */
export async function deleteArchives(ctx: StepContext, ids: Iterable<string>): Promise<void> {
  const { provider, limits, recorder } = ctx.deps;
  for (const id of ids) {
    await provider.deleteSnapshot(id, ctx.call(limits.platformMs));
    recorder.archive('deleted');
    ctx.log.info('archive deleted', { archive: id });
  }
}

/** Deletes archives that nothing needs any more. */
export async function tidy(ctx: StepContext): Promise<StepResult> {
  const needed = ctx.record.archive?.snapshotId;
  await deleteArchives(
    ctx,
    (ctx.record.obsolete ?? []).filter((id) => id !== needed),
  );
  await ctx.save({ clear: ['obsolete'] });
  return undefined;
}
