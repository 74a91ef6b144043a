/** Steps on the claim alone: claim, adopt, look, release. */
import { enter, newRecord, OF_THE_ORDER, OF_THE_RESTORE, OF_THE_SANDBOX } from '../../session/amend.ts';
import { coolDownMs } from '../../session/admission.ts';
import type { FailureHistory } from '../../session/session.ts';
import type { StepContext } from '../context.ts';
import type { StepResult } from './step.ts';

/** Takes the session. The record, and the attempt, are on disk before the queue is asked. */
export async function claim(ctx: StepContext): Promise<StepResult> {
  const { index, claims, recorder, queue, limits, clock } = ctx.deps;
  const { name } = ctx.lane;
  const isNew = ctx.record.stage === 'claimed';
  if (!isNew && ctx.record.stage !== 'serving' && (await startOver(ctx))) return undefined;
  const history = index.failures(name);
  if (isNew) {
    const attempts = (history?.attempts ?? 0) + 1;
    const coolUntil = clock.now() + coolDownMs(attempts);
    index.putFailures(name, {
      sessionId: ctx.sessionId,
      attempts,
      coolUntil,
      reason: history?.reason ?? 'claimed',
    });
  }
  await index.commit();
  const enqueuedAt = queue.sighting(ctx.sessionId).entry?.createdAt;
  const result = await claims.claim(ctx.sessionId, ctx.call(limits.apiMs)).catch((error: unknown) => {
    if (isNew) uncount(ctx, history);
    throw error;
  });
  recorder.claim(result.kind);
  if (result.kind === 'claimed' || result.kind === 'held') {
    ctx.log.info('session claimed', { kind: ctx.record.claimKind, tookMs: ctx.tookMs });
    if (isNew && enqueuedAt !== undefined) recorder.claimedAfter(clock.now() - enqueuedAt);
    return undefined;
  }
  ctx.log.debug('claim not won', { result: result.kind });
  if (!isNew) return undefined;
  uncount(ctx, history);
  await stepBack(ctx);
  return undefined;
}

/** Nothing was made for it, so nothing failed: the next claim is the same attempt. */
function uncount({ deps, lane }: StepContext, history: FailureHistory | undefined): void {
  if (history === undefined) deps.index.clearFailures(lane.name);
  else deps.index.putFailures(lane.name, history);
}

/**
 * The claim has lapsed before the remote ran. Another daemon may have served the session since, so a sandbox that was
 * made for it holds what was, not what is. Given up before the session is claimed again: a death in between would leave
 * a held session with an old sandbox, and nothing that tells.
 */
async function startOver(ctx: StepContext): Promise<boolean> {
  const { sandboxId, fresh, kept } = ctx.record;
  if (fresh !== true && (sandboxId !== undefined || kept === true)) return false;
  if (sandboxId === undefined) {
    // What was asked for and not answered is waited for all the same, to be destroyed before another one is made.
    const clear = OF_THE_SANDBOX.filter((key) => key !== 'createAskedAt');
    await ctx.save(enter('claimed', ctx.now, { clear }));
    return true;
  }
  // By way of the record: a destroy that is not answered is repeated until it is, before anything is made anew.
  await ctx.save(enter('suspending', ctx.now, { set: { ending: 'roll-over' }, clear: ['remoteStoppedAt'] }));
  ctx.log.warn('unused sandbox given up: its claim had lapsed', { sandboxId });
  return true;
}

/** Back to what was before admission: asleep with its archive (or kept sandbox), or unknown. */
async function stepBack(ctx: StepContext): Promise<void> {
  const { record } = ctx;
  if (record.archive === undefined && record.kept !== true) await ctx.remove();
  else {
    // To let go was the order, and it is let go of; only deleting it is still to do.
    const done = record.order === 'terminate' ? [] : OF_THE_ORDER;
    await ctx.save(enter('suspended', ctx.now, { clear: [...done, ...OF_THE_RESTORE] }));
  }
}

/**
 * A claim without a record that shows so long after the queue was first seen is one of an earlier life whose index was
 * lost. Not after the start: the queue may have been silent for a while.
 */
const STARTUP_MS = 60_000;

/**
 * The queue says that the session is ours, and we have no machine at work for it: after a lost index, or a lost
 * answer. Without a free slot the claim is given back, so that another daemon can serve it.
 */
export async function adopt(ctx: StepContext): Promise<StepResult> {
  const { index, queue, gate, limits, syncedAt } = ctx.deps;
  // Not when it is taken up: the platform may refuse to be asked for longer than that.
  ctx.lane.foundAt ??= ctx.now;
  // The watch repeats old news: what is taken up must be ours now.
  const { gist } = await queue.look(ctx.sessionId, ctx.call(limits.apiMs));
  if (gist !== 'held') return undefined;
  const record = index.get(ctx.lane.name);
  if (record === undefined) {
    const entry = queue.sighting(ctx.sessionId).entry;
    // A sandbox that is alive counts against the limit whatever the limit says; a claim alone can be given back.
    const machine = await hasMachine(ctx);
    if (!machine && ctx.lane.foundAt - (syncedAt() ?? ctx.now) > STARTUP_MS) return foreign(ctx);
    if (!machine && gate.used >= gate.max) return await release(ctx);
    ctx.put(newRecord(entry ?? { sessionId: ctx.sessionId, kind: 'unknown' }, 'claimed', 1, ctx.now));
    await index.commit();
    ctx.log.info('session adopted: the queue says that it is ours');
    return undefined;
  }
  if (gate.free === 0) return await release(ctx);
  const clear = record.kept === true ? [] : OF_THE_SANDBOX;
  await ctx.save(enter('claimed', ctx.now, { set: { attempt: record.attempt + 1, launches: 0 }, clear }));
  return undefined;
}

/**
 * Claims of our own have a record before they are made. One that appears in mid-life without record and machine was made
 * by somebody else under our name; serving it would make a second remote. Left alone, it lapses if nobody is there.
 */
function foreign(ctx: StepContext): StepResult {
  ctx.log.error(
    'claimed under our acceptor id, but not by us: is another daemon running with the same ACCEPTOR_ID?',
    {
      acceptor: ctx.deps.identity.acceptorId,
    },
  );
  return { again: ctx.now + STARTUP_MS };
}

async function hasMachine(ctx: StepContext): Promise<boolean> {
  const { provider, identity, limits } = ctx.deps;
  const tags = [ctx.lane.name, identity.acceptorTag];
  const made = await provider.list({ tags, include: 'active' }, ctx.call(limits.platformMs));
  return made.some((info) => info.state === 'running' || info.state === 'starting');
}

export async function look(ctx: StepContext): Promise<StepResult> {
  const { queue, limits } = ctx.deps;
  const exited = ctx.lane.facts.remote === 'exited';
  // Counted before the read, so that a failing read keeps its pace too.
  ctx.facts({ confirmedAt: ctx.now });
  await queue.look(ctx.sessionId, ctx.call(limits.apiMs));
  if (exited) ctx.facts({ looksSinceExit: ctx.lane.facts.looksSinceExit + 1 });
  return undefined;
}

export async function release(ctx: StepContext): Promise<StepResult> {
  const { claims, limits } = ctx.deps;
  await claims.release(ctx.sessionId, ctx.call(limits.apiMs));
  ctx.log.info('claim released: nothing is behind it');
  return undefined;
}
