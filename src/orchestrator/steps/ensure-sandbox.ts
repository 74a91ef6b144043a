/**
 * EnsureSandbox: one sandbox for the session, found or made. Order: the recorded one; any of its name that is ours to
 * use; else a new one, from the newest archive. An unanswered create leads back to looking before it is repeated.
 */
import { isProviderError, type SandboxInfo } from '../../sandboxes/provider.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import { enter, OF_THE_SANDBOX } from '../../session/amend.ts';
import type { Archive } from '../../session/session.ts';
import type { StepContext } from '../context.ts';
import { salvage } from './archive.ts';
import { findSandboxes, type Found } from './find-sandbox.ts';
import { createUnsettled, inspect, sandboxFact, stillHeld, type StepResult } from './step.ts';

/** What an earlier sandbox left in the record, where the adopted one's own values take its place. */
const STALE = OF_THE_SANDBOX.filter((key) => !['sandboxId', 'lifetimeEndsAt', 'fresh'].includes(key));

/** Tries to restore one archive before the session starts without it. */
const RESTORE_TRIES = 3;

export async function ensureSandbox(ctx: StepContext): Promise<StepResult> {
  if (!(await stillHeld(ctx))) return undefined;
  const recorded = await useRecorded(ctx);
  if (recorded !== 'none') return recorded === 'used' ? undefined : recorded;
  const [best, ...spares] = await findSandboxes(ctx, { takeOver: 'allowed' });
  if (best !== undefined) {
    await adoptSandbox(ctx, best);
    await destroySpares(ctx, spares);
    return undefined;
  }
  const unsettled = createUnsettled(ctx);
  if (unsettled !== undefined) return unsettled;
  await create(ctx);
  return undefined;
}

/** The record's own sandbox, when the platform still has it up or coming up. */
async function useRecorded(ctx: StepContext): Promise<'used' | 'none' | { readonly again: number }> {
  const { record } = ctx;
  if (record.sandboxId === undefined) return 'none';
  const info = await inspect(ctx, record.sandboxId);
  const fact = sandboxFact(info);
  if (fact === 'running' || fact === 'starting') {
    if (record.stage === 'claimed') ctx.amend(enter('provisioning', ctx.now, { clear: ['kept'] }));
    ctx.facts({ sandbox: fact, remote: 'unknown', probedAt: ctx.now });
    return 'used';
  }
  const pending = await salvage(ctx);
  if (pending !== undefined) return pending;
  noteLoss(ctx, info);
  const set = { failures: record.failures };
  await ctx.save(enter('provisioning', ctx.now, { set, clear: OF_THE_SANDBOX }));
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
  const { info, marker } = found;
  const { remote, identity, limits } = ctx.deps;
  const place = { sandboxId: info.id, paths: info.paths };
  ctx.lane.sandbox = info;
  const takenOver = marker !== undefined && marker.acceptorId !== identity.acceptorId;
  // The old holder's remote answers to a claim that is not the session's any more.
  if (takenOver) await remote.stop(place, undefined, ctx.call(limits.stopMs));
  const probe =
    marker !== undefined && !takenOver ? await remote.probe(place, ctx.call(limits.probeMs)) : undefined;
  // Nothing is ever put into a sandbox before its marker.
  const base = { sandboxId: info.id, fresh: marker === undefined, ...lifetime(ctx, info) };
  ctx.log.info('sandbox adopted', { sandboxId: info.id, takenOver, remote: probe?.kind ?? 'not asked' });
  if (probe?.kind === 'running') {
    const run = { launchId: probe.launchId, pid: probe.pid, launchedAt: ctx.now };
    const clear = STALE.filter((key) => key !== 'remote');
    await ctx.save(enter('serving', ctx.now, { set: { ...base, remote: run }, clear }));
    ctx.facts({ sandbox: 'running', remote: 'running', probedAt: ctx.now, healthySince: ctx.now });
    return;
  }
  await ctx.save(enter('provisioning', ctx.now, { set: base, clear: STALE }));
  ctx.facts({ sandbox: sandboxFact(info), remote: 'unknown', probedAt: ctx.now });
}

/** Unmarked spares hold nobody's work. A marked one may: the janitor judges it, with time to spare. */
async function destroySpares(ctx: StepContext, spares: readonly Found[]): Promise<void> {
  const { provider, limits } = ctx.deps;
  for (const { info, marker } of spares) {
    if (marker !== undefined) continue;
    await provider.destroy(info.id, ctx.call(limits.platformMs));
    ctx.log.warn('spare sandbox destroyed', { sandboxId: info.id });
  }
}

async function create(ctx: StepContext): Promise<void> {
  const { provider, identity, limits, queue, egressFor, gatewayUrl } = ctx.deps;
  const archive =
    ctx.record.startEmpty === true ? undefined : (ctx.record.archive ?? (await findArchive(ctx)));
  const egress = egressFor(queue.sighting(ctx.sessionId).entry?.networkPolicy, gatewayUrl);
  await ctx.save(
    enter('provisioning', ctx.now, {
      set: {
        failures: ctx.record.failures,
        createAskedAt: ctx.now,
        ...(archive === undefined ? {} : { archive }),
      },
      clear: OF_THE_SANDBOX.filter((key) => key !== 'createAskedAt'),
    }),
  );
  try {
    const info = await provider.create(
      {
        tags: [ctx.lane.name, ...identity.tags],
        ...(archive === undefined ? {} : { restoreFrom: archive.snapshotId }),
        ...(egress === undefined ? {} : { egress }),
      },
      ctx.call(limits.createMs),
    );
    ctx.lane.sandbox = info;
    const set = { sandboxId: info.id, fresh: true, ...lifetime(ctx, info) };
    await ctx.save({ set, clear: ['createAskedAt'] });
    ctx.facts({ sandbox: sandboxFact(info), remote: 'unknown', probedAt: ctx.now });
    ctx.log.info('sandbox created', { sandboxId: info.id, restoredFrom: archive?.snapshotId });
  } catch (error) {
    await afterFailedCreate(ctx, error, archive);
    throw error;
  }
}

/** What the failure says for certain is written down; what it leaves open stays open. */
async function afterFailedCreate(
  ctx: StepContext,
  error: unknown,
  archive: Archive | undefined,
): Promise<void> {
  if (!isProviderError(error) || error.kind === 'ambiguous') return;
  const unusable =
    archive !== undefined &&
    (error.kind === 'archive-failed' || (error.kind === 'not-found' && error.reason !== undefined));
  const tried = ctx.record.failures + 1;
  if (!unusable || tried < RESTORE_TRIES) {
    ctx.amend({ clear: ['createAskedAt'] });
    return;
  }
  ctx.log.error('archive cannot be restored: the session starts with an empty workspace', {
    archive: archive.snapshotId,
    error: describeError(error),
  });
  await ctx.save({ set: { startEmpty: true, failures: 0 }, clear: ['createAskedAt'] });
}

/**
 * The newest READY archive of an ended sandbox of this name, for a session that wakes when our memory of it is lost.
 * New sessions have none, so they are not looked up.
 */
async function findArchive(ctx: StepContext): Promise<Archive | undefined> {
  if (ctx.record.claimKind === 'new') return undefined;
  const { provider, limits } = ctx.deps;
  const all = await provider.list({ tags: [ctx.lane.name], include: 'all' }, ctx.call(limits.platformMs));
  const candidates: Archive[] = [];
  for (const info of all) {
    const snapshots = await provider.snapshots(info.id, ctx.call(limits.platformMs));
    for (const snapshot of snapshots) {
      if (snapshot.state !== 'ready') continue;
      candidates.push({ snapshotId: snapshot.id, takenAt: snapshot.createdAt ?? 0, sandboxId: info.id });
    }
  }
  candidates.sort((left, right) => right.takenAt - left.takenAt);
  const [newest] = candidates;
  if (newest !== undefined) {
    ctx.log.info('archive found by name', { archive: newest.snapshotId, takenAt: newest.takenAt });
  }
  return newest;
}

/** When the platform will end it. Counted from now when it has not started: early is safe. */
function lifetime(ctx: StepContext, info: SandboxInfo): { readonly lifetimeEndsAt?: number } {
  const { lifetimeMs } = ctx.deps.provider.capabilities;
  return lifetimeMs === undefined ? {} : { lifetimeEndsAt: (info.startedAt ?? ctx.now) + lifetimeMs };
}

/** A sandbox that failed to start: destroyed by id, and the failure counted. */
export async function discardSandbox(ctx: StepContext, why: string): Promise<StepResult> {
  const { record } = ctx;
  if (record.sandboxId === undefined) throw new DvoError('internal', 'there is no sandbox to discard');
  const reason = ctx.lane.sandbox?.reason;
  await ctx.deps.provider.destroy(record.sandboxId, ctx.call(ctx.deps.limits.platformMs));
  ctx.log.warn('sandbox discarded', { sandboxId: record.sandboxId, why, reason });
  const failures = record.failures + 1;
  await ctx.save(enter('provisioning', ctx.now, { set: { failures }, clear: OF_THE_SANDBOX }));
  ctx.facts({ sandbox: 'none', remote: 'unknown' });
  return undefined;
}
