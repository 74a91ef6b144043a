/** Terminate: nothing of the session stays. The record goes last, so that a crash anywhere finds it and goes on. */
import { enter } from '../../session/amend.ts';
import type { StepContext } from '../context.ts';
import { archivesByName, deleteArchives } from './archive.ts';
import { createUnsettled, releaseClaim, type StepResult } from './step.ts';
import { mayDestroy, ordered } from './take-down.ts';

export async function terminate(ctx: StepContext, why: 'terminated' | 'expired'): Promise<StepResult> {
  if (ctx.record.stage !== 'terminating') {
    const change = why === 'expired' ? { set: { ending: 'expire' as const } } : {};
    await ctx.save(enter('terminating', ctx.now, change));
    ctx.log.info('deleting everything of the session', { why });
  }
  const destroyed = await destroyAll(ctx, why);
  const unsettled = createUnsettled(ctx);
  if (unsettled !== undefined) return unsettled;
  await deleteArchives(ctx, await goners(ctx, why, destroyed));
  await releaseClaim(ctx);
  ctx.deps.index.clearFailures(ctx.lane.name);
  ordered(ctx);
  await ctx.remove();
  ctx.log.info('session gone: nothing of it is left', { tookMs: ctx.tookMs });
  return undefined;
}

/**
 * Its own by id, and any other that we made under its name: the spare of an unanswered create. A session that merely
 * expired here may live on with another daemon, so then only what the record names is touched.
 */
async function destroyAll(ctx: StepContext, why: 'terminated' | 'expired'): Promise<ReadonlySet<string>> {
  const { provider, limits, identity } = ctx.deps;
  const ids = new Set<string>();
  if (ctx.record.sandboxId !== undefined && (why === 'terminated' || (await mayDestroy(ctx)))) {
    ids.add(ctx.record.sandboxId);
  }
  if (why === 'terminated') {
    const tags = [ctx.lane.name, identity.acceptorTag];
    const made = await provider.list({ tags, include: 'active' }, ctx.call(limits.platformMs));
    for (const info of made) if (info.state !== 'ending') ids.add(info.id);
  }
  for (const id of ids) {
    await provider.destroy(id, ctx.call(limits.platformMs));
    ctx.log.info('sandbox destroyed', { sandboxId: id });
  }
  return ids;
}

/**
 * Archives we remember, and those that any sandbox of its name left behind: of a terminated session all, of one that
 * expired only what holds no more than ours, because another daemon may have served it since.
 */
async function goners(
  ctx: StepContext,
  why: 'terminated' | 'expired',
  destroyed: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { record } = ctx;
  const { archive } = record;
  const ids = new Set(record.obsolete ?? []);
  if (archive !== undefined) ids.add(archive.snapshotId);
  const found = await archivesByName(ctx, [record.sandboxId, archive?.sandboxId]);
  const ours = found.find(({ snapshot }) => snapshot.id === archive?.snapshotId)?.snapshot.createdAt;
  for (const { snapshot, sandboxId } of found) {
    const { id, createdAt, state } = snapshot;
    const isOlder = ours !== undefined && createdAt !== undefined && createdAt <= ours;
    // Of a request that arrived twice, or made by another daemon while it held the session.
    const isOfTheLast = archive?.last === true && sandboxId === archive.sandboxId;
    const isLess = isOlder || isOfTheLast || destroyed.has(sandboxId);
    if (why === 'terminated' || state === 'failed' || isLess) ids.add(id);
  }
  return ids;
}
