/** What the steps share: their result, and small questions that several of them ask. */
import type { Target } from '../../remote/port.ts';
import type { SandboxInfo } from '../../sandboxes/provider.ts';
import { isProviderError } from '../../sandboxes/provider.ts';
import type { SandboxFact, SessionRecord } from '../../session/session.ts';
import type { Deps, StepContext } from '../context.ts';
import { DvoError } from '../../lib/errors.ts';

/** Undefined: done. `again`: nothing failed, but the step is to be run again, not before that time. */
export type StepResult = { readonly again: number } | undefined;

/** A read older than this is repeated before something is made on its strength: the session may have gone. */
const FRESH_MS = 5_000;

/** Whether the queue, asked anew if need be, still gives the session to us. */
export async function stillHeld(ctx: StepContext): Promise<boolean> {
  const { queue, limits } = ctx.deps;
  const known = queue.sighting(ctx.sessionId);
  const fresh = known.readAt !== undefined && ctx.now - known.readAt <= FRESH_MS;
  const sighting = fresh ? known : await queue.look(ctx.sessionId, ctx.call(limits.apiMs));
  return sighting.gist === 'held';
}

export function sandboxFact(info: SandboxInfo | undefined): SandboxFact {
  if (info === undefined) return 'none';
  switch (info.state) {
    case 'starting':
      return 'starting';
    case 'running':
      return 'running';
    case 'ending':
    case 'ended':
      return 'ended';
  }
}

/** One read; undefined: the platform knows no such sandbox. Remembers what it saw. */
export async function inspect(ctx: StepContext, sandboxId: string): Promise<SandboxInfo | undefined> {
  try {
    const info = await ctx.deps.provider.get(sandboxId, ctx.call(ctx.deps.limits.platformMs));
    ctx.lane.sandbox = info;
    return info;
  } catch (error) {
    if (!isProviderError(error, 'not-found')) throw error;
    ctx.lane.sandbox = undefined;
    return undefined;
  }
}

/**
 * The session's sandbox as a place to run scripts in.
 * @throws DvoError `internal` when the record names none
 */
export async function target(ctx: StepContext): Promise<Target> {
  const { sandboxId } = ctx.record;
  if (sandboxId === undefined) throw new DvoError('internal', 'the record names no sandbox');
  const known = ctx.lane.sandbox;
  if (known?.id === sandboxId) return { sandboxId, paths: known.paths };
  const info = await ctx.deps.provider.get(sandboxId, ctx.call(ctx.deps.limits.platformMs));
  ctx.lane.sandbox = info;
  return { sandboxId, paths: info.paths };
}

/**
 * When the platform will end the sandbox, in milliseconds since the epoch. Counted from now when it has not started: early
 * is safe.
 */
export function lifetimeOf(
  { provider, clock }: Pick<Deps, 'provider' | 'clock'>,
  info: SandboxInfo,
): Pick<SessionRecord, 'lifetimeEndsAt'> {
  const { lifetimeMs } = provider.capabilities;
  return lifetimeMs === undefined ? {} : { lifetimeEndsAt: (info.startedAt ?? clock.now()) + lifetimeMs };
}

/** A request may be on its way this long, also when its asker has died meanwhile. */
const IN_FLIGHT_MS = 10_000;

/** A create that was asked for so recently that its sandbox may not be listed yet: when to look again. */
export function createUnsettled(ctx: StepContext): StepResult {
  const { createAskedAt } = ctx.record;
  return createAskedAt === undefined ? undefined : unsettled(ctx, createAskedAt);
}

/** The same of an archive: one that nobody knows of would never be deleted. */
export function archiveUnsettled(ctx: StepContext): StepResult {
  const { archiving } = ctx.record;
  const isOpen = archiving !== undefined && archiving.retryAt === undefined && archiving.unsupported !== true;
  return isOpen ? unsettled(ctx, archiving.askedAt) : undefined;
}

function unsettled(ctx: StepContext, askedAt: number): StepResult {
  const { listLagMs } = ctx.deps.provider.capabilities;
  const visibleAt = askedAt + IN_FLIGHT_MS + listLagMs;
  return ctx.now < visibleAt
    ? { again: Math.min(visibleAt, ctx.now + Math.max(1_000, listLagMs / 2)) }
    : undefined;
}

/**
 * Gives our claim back. Right after a start the queue has not been read: then it may be ours, and a release of what is
 * not is refused and harmless. A claim kept here would take the session up again at once, whatever it is to wait for.
 */
export async function releaseClaim(ctx: StepContext): Promise<void> {
  const { queue, claims, identity, limits } = ctx.deps;
  const { gist, entry } = queue.sighting(ctx.sessionId);
  if (gist === 'unseen' || entry?.acceptorId === identity.acceptorId) {
    await claims.release(ctx.sessionId, ctx.call(limits.apiMs));
  }
  claims.drop(ctx.sessionId);
}
