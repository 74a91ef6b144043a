/** Terminate: nothing of the session stays. The record goes last, so that a crash anywhere finds it and goes on. */
import { enter, withObsolete } from '../../session/amend.ts';
import type { GiveUp } from '../../session/decision.ts';
import type { StepContext } from '../context.ts';
import { archivesByName, deleteArchives } from './archive.ts';
import { archiveUnsettled, createUnsettled, releaseClaim, type StepResult } from './step.ts';
import { mayDestroy, ordered } from './take-down.ts';

export async function terminate(ctx: StepContext, why: GiveUp): Promise<StepResult> {
  if (ctx.record.stage !== 'terminating') {
    const change = KEEPS_TO_OURS.has(why) ? { set: { ending: 'expire' as const } } : {};
    await ctx.save(enter('terminating', ctx.now, change));
    ctx.log.info('deleting everything of the session', { why });
  }
  // Read again before each thing that cannot be undone: the planner then sees the same, and leaves the rest alone.
  if (why === 'ordered' && (await isElsewhere(ctx))) return undefined;
  const destroyed = await destroyAll(ctx, why);
  const unsettled = createUnsettled(ctx) ?? archiveUnsettled(ctx);
  if (unsettled !== undefined) return unsettled;
  const ids = await goners(ctx, why, destroyed);
  // What cannot be deleted yet must not keep a slot for a machine that is gone.
  await ctx.save({ set: withObsolete(ctx.record, [...ids]), clear: ['sandboxId', 'createAskedAt'] });
  if (why === 'ordered' && (await isElsewhere(ctx))) return undefined;
  await deleteArchives(ctx, ids);
  await releaseClaim(ctx);
  ctx.deps.index.clearFailures(ctx.lane.name);
  ordered(ctx);
  await ctx.remove();
  ctx.log.info('session gone: nothing of it is left', { tookMs: ctx.tookMs });
  return undefined;
}

/** Of a session that is merely done with here, which may live on with another daemon. */
const KEEPS_TO_OURS: ReadonlySet<GiveUp> = new Set(['expired', 'discarded']);

/** A person's order holds here; another daemon that has the session by now may work from what is found. */
async function isElsewhere(ctx: StepContext): Promise<boolean> {
  const { queue, limits } = ctx.deps;
  return (await queue.look(ctx.sessionId, ctx.call(limits.apiMs))).gist === 'elsewhere';
}

/**
 * Its own by id, if no other daemon works in it by now; and any other that we made under its name, the spare of an
 * unanswered create.
 */
async function destroyAll(ctx: StepContext, why: GiveUp): Promise<ReadonlySet<string>> {
  const { provider, limits, identity } = ctx.deps;
  const { sandboxId } = ctx.record;
  const ids = new Set<string>();
  if (!KEEPS_TO_OURS.has(why)) {
    const tags = [ctx.lane.name, identity.acceptorTag];
    const made = await provider.list({ tags, include: 'active' }, ctx.call(limits.platformMs));
    for (const info of made) if (info.state !== 'ending' && info.id !== sandboxId) ids.add(info.id);
  }
  if (sandboxId !== undefined && (why === 'terminated' || (await mayDestroy(ctx)))) ids.add(sandboxId);
  for (const id of ids) {
    await provider.destroy(id, ctx.call(limits.platformMs));
    ctx.log.info('sandbox destroyed', { sandboxId: id });
  }
  return ids;
}

/**
 * Archives we remember, and those that any sandbox of its name left behind. Devin's word is about all of them. Ours is not
 * about what another daemon has made since: of a session that was ordered away here, what was there before; of one that
 * is merely done with here, what holds no more than ours.
 */
async function goners(
  ctx: StepContext,
  why: GiveUp,
  destroyed: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const { archive, sandboxId, orderedAt = 0, obsolete = [], setAside = [] } = ctx.record;
  const found = await archivesByName(ctx, [sandboxId, archive?.sandboxId]);
  const ours = found.find(({ snapshot }) => snapshot.id === archive?.snapshotId)?.snapshot.createdAt;
  const before = Math.max(ours ?? 0, why === 'ordered' ? orderedAt - CLOCKS_APART_MS : 0);
  const ids = new Set([...obsolete, ...setAside]);
  if (archive !== undefined) ids.add(archive.snapshotId);
  for (const { snapshot, sandboxId: source } of found) {
    const { id, createdAt, state } = snapshot;
    const isOld = createdAt !== undefined && createdAt <= before;
    // Of a request that arrived twice, or made by another daemon while it held the session.
    const isOfTheLast = archive?.last === true && source === archive.sandboxId;
    const isLess = isOld || isOfTheLast || destroyed.has(source);
    if (why === 'terminated' || state === 'failed' || isLess) ids.add(id);
  }
  return ids;
}

/** The platform's clock and ours may differ by less than this. */
const CLOCKS_APART_MS = 60_000;
