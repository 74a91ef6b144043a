/**
 * Taking a session's machine down: withdraw, stop-remote, confirm-owner, destroy, settle, revive. The order
 * stop → archive READY and recorded → destroy → release is the planner's; each step here can be repeated.
 */
import { isGone } from '../../sandboxes/provider.ts';
import { describeError } from '../../lib/errors.ts';
import { coolDownMs, leftAlone } from '../../session/admission.ts';
import { enter, OF_THE_ORDER, OF_THE_RESTORE, OF_THE_SANDBOX } from '../../session/amend.ts';
import type { Ending, SessionRecord } from '../../session/session.ts';
import type { StepContext } from '../context.ts';
import { archivesByName, archivesOf, deleteArchives, inherit, salvage } from './archive.ts';
import { destroySpares, noteLoss } from './ensure-sandbox.ts';
import { findSandboxes } from './find-sandbox.ts';
import { createUnsettled, inspect, releaseClaim, sandboxFact, target, type StepResult } from './step.ts';

/** Lets go of a session that has no remote. A machine that exists after all goes on to be taken down. */
export async function withdraw(ctx: StepContext, ending: Ending): Promise<StepResult> {
  const { record } = ctx;
  if (record.sandboxId === undefined) {
    const { usable, spares } = await findSandboxes(ctx, { takeOver: 'forbidden' });
    const [found] = usable;
    await destroySpares(ctx, spares);
    if (found === undefined) {
      const unsettled = createUnsettled(ctx);
      if (unsettled !== undefined) return unsettled;
      await ctx.save(enter('suspending', ctx.now, { set: { ending }, clear: ['createAskedAt'] }));
      ctx.facts({ sandbox: 'none', remote: 'unknown' });
      return undefined;
    }
    ctx.lane.sandbox = found.info;
    const set = { ending, sandboxId: found.info.id, fresh: !found.used };
    await ctx.save(enter('suspending', ctx.now, { set, clear: ['createAskedAt'] }));
    ctx.facts({ sandbox: sandboxFact(found.info), remote: 'unknown', probedAt: ctx.now });
    return undefined;
  }
  await ctx.save(
    enter('suspending', ctx.now, { set: { ending }, clear: ['remoteStoppedAt', 'createAskedAt'] }),
  );
  return undefined;
}

/** From here on the session is being taken down, and why is on disk. */
export async function stopRemote(ctx: StepContext, ending: Ending): Promise<StepResult> {
  const { remote, limits } = ctx.deps;
  if (ctx.record.stage !== 'suspending') {
    const clear = ['remoteStoppedAt', 'ownerConfirmed'] as const;
    await ctx.save(enter('suspending', ctx.now, { set: { ending }, clear }));
    ctx.log.info('taking the session down', { ending });
  }
  const { sandbox } = ctx.lane.facts;
  if (sandbox === 'none' || sandbox === 'ended' || ctx.record.sandboxId === undefined) return undefined;
  if (ctx.record.fresh !== true) {
    try {
      if (await takenOver(ctx)) return await forget(ctx);
      const launchId = ending === 'yield' ? ctx.record.remote?.launchId : undefined;
      if (ending !== 'yield' || launchId !== undefined) {
        await remote.stop(await target(ctx), launchId, ctx.call(limits.stopMs));
      }
    } catch (error) {
      if (isGone(error)) {
        ctx.facts({ sandbox: 'unknown' });
        return undefined;
      }
      if (!isOverdue(ctx, ending)) throw error;
      ctx.log.error('remote could not be stopped; archiving all the same', { error: describeError(error) });
    }
  }
  await ctx.save({ set: { remoteStoppedAt: ctx.now, failures: 0 } });
  return undefined;
}

/** At half a minute each: longer than a platform's trouble usually lasts. */
const UNREACHABLE_TRIES = 60;

/**
 * Whether to go on with a sandbox that no command reaches: it can still be archived, and its end ends the remote. What the
 * remote does in between is lost. So soon only when Devin has put the session to sleep; else when the trouble does not
 * end, or while there is just time for an archive before the platform ends the sandbox.
 */
function isOverdue({ record, now, deps: { rules } }: StepContext, ending: Ending): boolean {
  const tries = record.failures + 1;
  if (ending === 'yield' || tries < rules.stepRetryLimit) return false;
  const { lifetimeEndsAt = Infinity, order } = record;
  const sleeps = ending === 'suspend' && order === undefined;
  return sleeps || tries >= UNREACHABLE_TRIES || now >= lifetimeEndsAt - rules.lifetimeMarginMs / 2;
}

/** After the grace: a marker that names another daemon means that the sandbox is not ours to touch any more. */
export async function confirmOwner(ctx: StepContext): Promise<StepResult> {
  if (await takenOver(ctx)) return await forget(ctx);
  await ctx.save({ set: { ownerConfirmed: true } });
  return undefined;
}

/** Another daemon works in our sandbox. It may come at any time once the claim is not ours any more. */
async function takenOver(ctx: StepContext, how: 'readMarker' | 'condemn' = 'readMarker'): Promise<boolean> {
  const { remote, limits, identity } = ctx.deps;
  const place = await target(ctx);
  const marker = await remote[how](place, ctx.call(limits.platformMs));
  return (
    marker !== undefined && marker.sandboxId === place.sandboxId && marker.acceptorId !== identity.acceptorId
  );
}

export async function destroy(ctx: StepContext): Promise<StepResult> {
  const { provider, limits } = ctx.deps;
  const { sandboxId } = ctx.record;
  if (sandboxId !== undefined) {
    // The new holder may have come while the archive was made.
    if (ctx.lane.facts.sandbox === 'running' && !(await mayDestroy(ctx))) return await forget(ctx);
    await provider.destroy(sandboxId, ctx.call(limits.platformMs));
    ctx.log.info('sandbox destroyed', { sandboxId });
  }
  ctx.lane.sandbox = undefined;
  ctx.facts({ sandbox: 'none', remote: 'unknown' });
  // One that was kept while its session slept takes no slot to its end either.
  await ctx.save({ clear: OF_THE_SANDBOX.filter((key) => key !== 'ending' && key !== 'kept') });
  return undefined;
}

/**
 * Whether the running sandbox is still ours to destroy. "Yes" is on disk before it is answered: from then on a destroy may
 * be on its way, and nobody has worked in the sandbox since its archive was taken.
 */
export async function mayDestroy(ctx: StepContext): Promise<boolean> {
  if (await nowForeign(ctx)) {
    // With a destroy on its way the new holder must not begin: it waits that out by itself.
    if (ctx.record.destroyAsked !== true) await spare(ctx);
    return false;
  }
  const { archive, sandboxId } = ctx.record;
  const isOfThis = archive !== undefined && archive.sandboxId === sandboxId;
  const last: Pick<SessionRecord, 'archive'> = isOfThis ? { archive: { ...archive, last: true } } : {};
  await ctx.save({ set: { destroyAsked: true, ...last } });
  return true;
}

/** Like takenOver; a sandbox that does not run is nobody's. */
async function isForeign(ctx: StepContext, how: 'readMarker' | 'condemn' = 'readMarker'): Promise<boolean> {
  try {
    return await takenOver(ctx, how);
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

/** The new holder waits for this, or for the sandbox's end. */
async function spare(ctx: StepContext): Promise<void> {
  const { remote, limits } = ctx.deps;
  try {
    await remote.spare(await target(ctx), ctx.call(limits.platformMs));
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/**
 * A sandbox that cannot be asked any more is ours still while the queue says that the session is. While another daemon
 * holds it, it may be the one at work in there; when nobody does, it may sleep in there. From the answer "no" on nobody
 * takes it over any more.
 */
async function nowForeign(ctx: StepContext): Promise<boolean> {
  const { queue, limits, rules, identity } = ctx.deps;
  try {
    return await isForeign(ctx, 'condemn');
  } catch (error) {
    const tries = ctx.record.failures + 1;
    if (tries < rules.stepRetryLimit) throw error;
    const { entry } = await queue.look(ctx.sessionId, ctx.call(limits.apiMs));
    const holder = entry?.phase === 'claimed' ? entry.acceptorId : undefined;
    if (holder === undefined ? tries < UNREACHABLE_TRIES : holder !== identity.acceptorId) throw error;
    ctx.log.error('marker not readable: destroying all the same', { error: describeError(error) });
    return false;
  }
}

/** The machine is gone, or stays by the operator's choice: give the claim back and put the record to rest. */
export async function settle(ctx: StepContext): Promise<StepResult> {
  const { record } = ctx;
  const kept = ctx.lane.facts.sandbox === 'running';
  if (!kept && record.sandboxId !== undefined) {
    // Not destroyed by us. One more read: a passing not-found must not cost a workspace.
    const info = await inspect(ctx, record.sandboxId);
    const fact = sandboxFact(info);
    if (fact === 'running' || fact === 'starting') {
      ctx.facts({ sandbox: fact });
      return undefined;
    }
    const pending = await salvage(ctx);
    if (pending !== undefined) return pending;
    if (record.archive === undefined) await inherit(ctx, await archivesOf(ctx, record.sandboxId));
    noteLoss(ctx, info);
  }
  switch (record.ending ?? 'suspend') {
    case 'roll-over':
      await ctx.save(enter('provisioning', ctx.now, { clear: [...OF_THE_SANDBOX, ...OF_THE_RESTORE] }));
      return undefined;
    case 'yield':
      return await forget(ctx);
    case 'give-up':
      coolDown(ctx);
      return await rest(ctx, kept);
    case 'suspend':
      // It ended as sessions do, so nothing is held against it.
      if (record.launches > 0) ctx.deps.index.clearFailures(ctx.lane.name);
      return await rest(ctx, kept);
    case 'drain':
    case 'release':
    case 'expire':
      return await rest(ctx, kept);
  }
}

async function rest(ctx: StepContext, kept: boolean): Promise<StepResult> {
  const { orderedAt } = ctx.record;
  await releaseClaim(ctx);
  // The kept sandbox holds more than any archive under its name.
  if (kept && ctx.record.archive === undefined) await inherit(ctx, await archivesByName(ctx));
  const { record } = ctx;
  if (record.orderedAt === orderedAt) ordered(ctx);
  if (record.archive === undefined && !kept) {
    await deleteArchives(ctx, await failedArchives(ctx));
    await ctx.remove();
    ctx.log.info('session let go', { ending: record.ending, archive: 'none' });
    return undefined;
  }
  const ofTheSandbox = kept ? OF_THE_SANDBOX.filter((key) => !KEPT.has(key)) : OF_THE_SANDBOX;
  // One that was given while the session was let go is still to be carried out.
  const done = record.orderedAt === orderedAt ? OF_THE_ORDER : [];
  const clear = [...ofTheSandbox, ...done, ...(kept ? [] : OF_THE_RESTORE)];
  await ctx.save(
    enter('suspended', ctx.now, { set: { launches: 0, ...(kept ? { kept: true } : {}) }, clear }),
  );
  ctx.log.info('session asleep', {
    ending: record.ending,
    archive: record.archive?.snapshotId,
    ...(kept ? { kept: record.sandboxId } : {}),
  });
  return undefined;
}

/** What was begun and broke off, also while nobody looked. */
async function failedArchives(ctx: StepContext): Promise<ReadonlySet<string>> {
  const found = await archivesByName(ctx, [ctx.record.sandboxId]);
  const failed = found.filter(({ snapshot }) => snapshot.state === 'failed');
  return new Set([...(ctx.record.obsolete ?? []), ...failed.map(({ snapshot }) => snapshot.id)]);
}

/** What a kept sandbox still needs to be known by. */
const KEPT: ReadonlySet<string> = new Set(['sandboxId', 'egress', 'lifetimeEndsAt', 'kept']);

/** The order is done. Known before the record says so: from then on the queue may offer the session again. */
export function ordered(ctx: StepContext): void {
  const { index } = ctx.deps;
  const { order } = ctx.record;
  if (order === undefined) return;
  const known = index.failures(ctx.lane.name);
  index.putFailures(ctx.lane.name, leftAlone(ctx.sessionId, known, order, ctx.now));
}

function coolDown(ctx: StepContext): void {
  const { index } = ctx.deps;
  const { createTag, sandboxId } = ctx.record;
  // A claim that was never answered has not been counted.
  const uncounted = createTag === undefined && sandboxId === undefined ? 1 : 0;
  const attempts = Math.max(2, (index.failures(ctx.lane.name)?.attempts ?? 1) + uncounted);
  const coolUntil = ctx.now + coolDownMs(attempts);
  const { lastError } = ctx.record;
  const reason =
    lastError === undefined ? 'its remote keeps failing' : `${lastError.step}: ${lastError.message}`;
  index.putFailures(ctx.lane.name, { sessionId: ctx.sessionId, attempts, coolUntil, reason });
  ctx.log.error('session given up for now', { attempts, coolUntil, reason });
}

/** How often a kept sandbox is looked at whose session another daemon holds. */
const TAKE_OVER_LOOK_MS = 30_000;

/**
 * Another daemon holds the session. A sandbox that is still here with the session's work stays in the record until it
 * is taken over or gone: forgotten, it would be found again as one that nobody needs.
 */
export async function leave(ctx: StepContext): Promise<StepResult> {
  const { sandboxId, stage } = ctx.record;
  if (sandboxId === undefined) return await forget(ctx);
  const fact = sandboxFact(await inspect(ctx, sandboxId));
  if (fact !== 'running' || (await isForeign(ctx))) return await forget(ctx);
  return stage === 'suspended' ? { again: ctx.now + TAKE_OVER_LOOK_MS } : await rest(ctx, true);
}

/** Drops the record and touches nothing else. */
async function forget(ctx: StepContext): Promise<StepResult> {
  ctx.deps.claims.drop(ctx.sessionId);
  const { archive, sandboxId } = ctx.record;
  await ctx.remove();
  ctx.log.info('session left to the daemon that holds it', {
    archive: archive?.snapshotId,
    sandboxId,
  });
  return undefined;
}

/** Its archive fails, but the session is wanted: it is served again where its work is. */
export async function revive(ctx: StepContext): Promise<StepResult> {
  ctx.log.warn('archive failing and session wanted: serving it again in its old sandbox');
  await ctx.save(
    enter('preparing', ctx.now, { clear: ['remoteStoppedAt', 'ending', 'preparedSha', 'ownerConfirmed'] }),
  );
  return undefined;
}
