/**
 * EnsureSandbox: one sandbox for the session, found or made. Order: the recorded one; any of its name that is ours to
 * use; else a new one, from the newest archive. An unanswered create leads back to looking before it is repeated.
 */
import { isProviderError, type SandboxInfo, type SnapshotInfo } from '../../sandboxes/provider.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import {
  enter,
  OF_THE_RESTORE,
  OF_THE_SANDBOX,
  withObsolete,
  type Change,
  type Clearable,
} from '../../session/amend.ts';
import type { Archive } from '../../session/session.ts';
import type { StepContext } from '../context.ts';
import { archivesByName, inherit, noteFound, readyOf, salvage } from './archive.ts';
import { findSandboxes, type Found } from './find-sandbox.ts';
import { reachOfNext } from './reach.ts';
import { createUnsettled, inspect, lifetimeOf, sandboxFact, stillHeld, type StepResult } from './step.ts';

/** What an earlier sandbox left in the record, where the adopted one's own values take its place. */
const STALE = OF_THE_SANDBOX.filter(
  (key) => !['sandboxId', 'egress', 'lifetimeEndsAt', 'fresh', 'takenFrom'].includes(key),
);

/** Tries to restore one archive before the session starts without it: one that is not there, or that is refused. */
const RESTORE_TRIES = { missing: 2, refused: 6 };

export async function ensureSandbox(ctx: StepContext): Promise<StepResult> {
  if (!(await stillHeld(ctx))) return undefined;
  const recorded = await useRecorded(ctx);
  if (recorded !== 'none') return recorded === 'used' ? undefined : recorded;
  const { usable, spares } = await findSandboxes(ctx, { takeOver: 'allowed' });
  const [best, ...others] = usable;
  if (best !== undefined) {
    await adoptSandbox(ctx, best);
    // A used one may hold work: the janitor judges it, with time to spare.
    const unused = others.filter((other) => !other.used).map(({ info }) => info);
    await destroySpares(ctx, [...unused, ...spares]);
    return undefined;
  }
  await destroySpares(ctx, spares);
  const unsettled = createUnsettled(ctx);
  if (unsettled !== undefined) return unsettled;
  return await create(ctx);
}

/** The record's own sandbox, when the platform still has it up or coming up. */
async function useRecorded(ctx: StepContext): Promise<'used' | 'none' | { readonly again: number }> {
  const { record } = ctx;
  if (record.sandboxId === undefined) return 'none';
  const info = await inspect(ctx, record.sandboxId);
  const fact = sandboxFact(info);
  if (fact === 'running' || fact === 'starting') {
    const clear = ['kept', 'createAskedAt'] as const;
    ctx.amend(record.stage === 'claimed' ? enter('provisioning', ctx.now, { clear }) : { clear });
    ctx.facts({ sandbox: fact, remote: 'unknown', probedAt: ctx.now });
    return 'used';
  }
  const pending = await salvage(ctx);
  if (pending !== undefined) return pending;
  noteLoss(ctx, info);
  const set = { failures: record.failures };
  await ctx.save(enter('provisioning', ctx.now, { set, clear: [...OF_THE_SANDBOX, ...OF_THE_RESTORE] }));
  return 'none';
}

/** A sandbox that is gone took with it what was written since its last archive; the log says how much that is. */
export function noteLoss(ctx: StepContext, info: SandboxInfo | undefined): void {
  const { record } = ctx;
  ctx.deps.recorder.archive('lost');
  ctx.log.warn('sandbox lost', {
    sandboxId: record.sandboxId,
    reason: info?.reason ?? 'the platform does not know it any more',
    archiveAgeMs: record.archive === undefined ? undefined : ctx.now - record.archive.takenAt,
    note:
      record.archive === undefined
        ? 'there is no archive: it starts empty'
        : 'going on from the newest archive',
  });
}

async function adoptSandbox(ctx: StepContext, found: Found): Promise<void> {
  const { info, used, takenFrom } = found;
  const { remote, limits } = ctx.deps;
  const place = { sandboxId: info.id, paths: info.paths };
  ctx.lane.sandbox = info;
  if (takenFrom !== undefined) {
    // The old holder's remote answers to a claim that is not the session's any more; its archives are ours to replace.
    await remote.stop(place, undefined, ctx.call(limits.stopMs));
    await inherit(ctx, await archivesByName(ctx));
  }
  const probe =
    used && takenFrom === undefined ? await remote.probe(place, ctx.call(limits.probeMs)) : undefined;
  const base = { sandboxId: info.id, fresh: !used, ...lifetimeOf(ctx.deps, info) };
  const stale: readonly Clearable[] = [
    ...STALE,
    ...(takenFrom === undefined ? (['takenFrom'] as const) : []),
    // An unused one is the one that was asked for last.
    ...(used ? (['egress'] as const) : []),
  ];
  ctx.log.info('sandbox adopted', {
    sandboxId: info.id,
    takenOver: takenFrom !== undefined,
    remote: probe?.kind ?? 'not asked',
  });
  if (probe?.kind === 'running') {
    const run = { launchId: probe.launchId, pid: probe.pid, launchedAt: ctx.now };
    const clear = stale.filter((key) => key !== 'remote');
    await ctx.save(enter('serving', ctx.now, { set: { ...base, remote: run }, clear }));
    ctx.facts({ sandbox: 'running', remote: 'running', probedAt: ctx.now, healthySince: ctx.now });
    return;
  }
  if (!used) ctx.deps.gate.noteCreated();
  const set = { ...base, ...(takenFrom !== undefined && { takenFrom }) };
  await ctx.save(enter('provisioning', ctx.now, { set, clear: stale }));
  ctx.facts({ sandbox: sandboxFact(info), remote: 'unknown', probedAt: ctx.now });
}

/** Sandboxes that were never used hold nobody's work. */
export async function destroySpares(ctx: StepContext, spares: readonly SandboxInfo[]): Promise<void> {
  const { provider, limits } = ctx.deps;
  for (const info of spares) {
    await provider.destroy(info.id, ctx.call(limits.platformMs));
    ctx.log.warn('spare sandbox destroyed', { sandboxId: info.id });
  }
}

async function create(ctx: StepContext): Promise<StepResult> {
  const { provider, identity, limits, random } = ctx.deps;
  const { archive, older, lost } = await chooseArchive(ctx);
  const reach = await reachOfNext(ctx);
  // The row has gone meanwhile: the planner sees the same.
  if (reach === undefined) return undefined;
  if (lost === true) noteEmptyStart(ctx, 'the platform says that it has failed');
  const createTag = `dvo-create-${random.id().slice(0, 16)}`;
  const egress = reach.hosts === undefined ? {} : { egress: reach.hosts };
  const { stage, failures } = ctx.record;
  const set = {
    failures,
    createAskedAt: ctx.now,
    createTag,
    ...egress,
    ...withObsolete(ctx.record, older),
    ...(archive === undefined ? {} : { archive }),
    ...(lost === true ? { startEmpty: true } : {}),
  };
  const asking: Change = {
    set,
    clear: [
      ...OF_THE_SANDBOX.filter((key) => !(key in set)),
      ...(archive === undefined ? [] : (['startEmpty'] as const)),
      ...(archive?.snapshotId === ctx.record.archive?.snapshotId ? [] : (['refusals'] as const)),
    ],
  };
  // How long no sandbox is to be had counts from the first try; how long one takes to start, from when it was made.
  await ctx.save(stage === 'provisioning' ? asking : enter('provisioning', ctx.now, asking));
  try {
    const tags = [ctx.lane.name, ...identity.tags, createTag];
    const restored = archive === undefined ? {} : { restoreFrom: archive.snapshotId };
    const info = await provider.create({ tags, ...restored, ...egress }, ctx.call(limits.createMs));
    ctx.lane.sandbox = info;
    const made = { failures, sandboxId: info.id, fresh: true, ...lifetimeOf(ctx.deps, info) };
    const clear = ['createAskedAt', 'refusals'] as const;
    await ctx.save(enter('provisioning', ctx.now, { set: made, clear }));
    ctx.facts({ sandbox: sandboxFact(info), remote: 'unknown', probedAt: ctx.now });
    ctx.log.info('sandbox created', {
      sandboxId: info.id,
      restoredFrom: archive?.snapshotId,
      tookMs: ctx.tookMs,
    });
    ctx.deps.gate.noteCreated();
    return undefined;
  } catch (error) {
    return await afterFailedCreate(ctx, error, archive);
  }
}

/**
 * A failed create stays open, whatever it says: a refusal answers one copy of the request, and a relay may have
 * delivered another. What was made shows in lists only later.
 */
async function afterFailedCreate(
  ctx: StepContext,
  error: unknown,
  archive: Archive | undefined,
): Promise<StepResult> {
  const createAskedAt = ctx.now;
  const tries = archive === undefined ? undefined : restoreTries(error);
  if (tries === undefined) {
    await ctx.save({ set: { createAskedAt } });
    throw error;
  }
  // Not a failure of the session, which can still begin without it.
  const refusals = (ctx.record.refusals ?? 0) + 1;
  const lastError = { at: ctx.now, step: 'ensure-sandbox', message: describeError(error) };
  if (refusals < tries) {
    await ctx.save({ set: { createAskedAt, refusals, lastError } });
    ctx.log.warn('archive not restored: trying again', { archive: archive?.snapshotId, ...lastError });
  } else {
    noteEmptyStart(ctx, lastError.message);
    await ctx.save({ set: { createAskedAt, startEmpty: true, lastError }, clear: ['refusals'] });
  }
  return { again: ctx.now };
}

/** How often to try again; undefined: it is not about the archive. */
function restoreTries(error: unknown): number | undefined {
  if (isProviderError(error, 'archive-failed')) return RESTORE_TRIES.refused;
  const isMissing = isProviderError(error, 'not-found') && error.reason !== undefined;
  return isMissing ? RESTORE_TRIES.missing : undefined;
}

function noteEmptyStart(ctx: StepContext, error: string): void {
  ctx.log.error('archive cannot be restored: the session starts with an empty workspace', {
    archive: ctx.record.archive?.snapshotId,
    error,
  });
}

interface Choice {
  readonly archive: Archive | undefined;
  /** The only archive that there was has failed since: no try can help. */
  readonly lost?: true;
  /** Archives of the session that failed, and the record's own when another daemon has made a newer one. */
  readonly older: readonly string[];
}

/**
 * What the next sandbox starts from: the newest READY archive under the session's name, whoever made it. The record
 * alone does not know: another daemon may have served the session since, also while this one thought it held it.
 */
async function chooseArchive(ctx: StepContext): Promise<Choice> {
  const { record } = ctx;
  const { ready, failed } = await findArchives(ctx);
  const [newest, ...rest] = ready;
  const recordedId = record.archive?.snapshotId;
  // What could not be restored is the record's; another daemon may have served the session since, and archived it.
  if (record.startEmpty === true && (newest === undefined || newest.snapshotId === recordedId)) {
    return { archive: undefined, older: [] };
  }
  // Other older ones go when the session ends: another daemon may have begun empty because one could not be restored.
  const isOwn = record.startEmpty !== true && rest.some(({ snapshotId }) => snapshotId === recordedId);
  const older = [...failed, ...(isOwn && recordedId !== undefined ? [recordedId] : [])];
  if (newest === undefined && recordedId !== undefined && failed.includes(recordedId)) {
    return { archive: undefined, older, lost: true };
  }
  if (newest === undefined || newest.snapshotId === recordedId) {
    return { archive: record.archive, older };
  }
  noteFound(ctx, newest);
  return { archive: newest, older };
}

interface Archives {
  /** Newest first, by the platform's clock. */
  readonly ready: readonly Archive[];
  readonly failed: readonly string[];
}

/** The archives of all sandboxes of this name. */
async function findArchives(ctx: StepContext): Promise<Archives> {
  const found = [...(await archivesByName(ctx))];
  const { archive } = ctx.record;
  // Lists may lag, and the platform may have forgotten the sandbox before its archive.
  if (archive !== undefined && !readyOf(found).some(({ snapshotId }) => snapshotId === archive.snapshotId)) {
    const snapshot = await recorded(ctx, archive);
    if (snapshot !== undefined) found.push({ snapshot, sandboxId: archive.sandboxId });
  }
  const failed = found
    .filter(({ snapshot }) => snapshot.state === 'failed')
    .map(({ snapshot }) => snapshot.id);
  return { ready: readyOf(found), failed };
}

async function recorded(ctx: StepContext, archive: Archive): Promise<SnapshotInfo | undefined> {
  const { provider, limits } = ctx.deps;
  try {
    return await provider.getSnapshot(archive.snapshotId, ctx.call(limits.platformMs));
  } catch (error) {
    if (isProviderError(error, 'not-found')) return undefined;
    throw error;
  }
}

/** A sandbox that failed to start: destroyed by id, and the failure counted. */
export async function discardSandbox(ctx: StepContext, why: string): Promise<StepResult> {
  const { record } = ctx;
  if (record.sandboxId === undefined) throw new DvoError('internal', 'there is no sandbox to discard');
  const reason = ctx.lane.sandbox?.reason;
  // It may come up after all while this is on its way.
  await ctx.save({ set: { destroyAsked: true } });
  await ctx.deps.provider.destroy(record.sandboxId, ctx.call(ctx.deps.limits.platformMs));
  ctx.log.warn('sandbox discarded', { sandboxId: record.sandboxId, why, reason });
  const failures = record.failures + 1;
  const message =
    reason === undefined ? `sandbox discarded: ${why}` : `sandbox discarded: ${why} (${reason})`;
  const lastError = { at: ctx.now, step: 'discard-sandbox', message };
  await ctx.save(enter('provisioning', ctx.now, { set: { failures, lastError }, clear: OF_THE_SANDBOX }));
  ctx.facts({ sandbox: 'none', remote: 'unknown' });
  return undefined;
}
