/**
 * Finding a session's sandbox on the platform. Names are tags only, lists may lag and may show several; the marker
 * in the volume says whose a sandbox is.
 */
import { DvoError } from '../../lib/errors.ts';
import { isProviderError, type SandboxInfo } from '../../sandboxes/provider.ts';
import type { Marker } from '../../remote/port.ts';
import type { StepContext } from '../context.ts';

export interface Found {
  readonly info: SandboxInfo;
  /** Undefined: it has none (nothing was ever put into it), or it is still starting. */
  readonly marker: Marker | undefined;
}

export interface FindOptions {
  /** Whether a sandbox that another daemon marked counts: only while we hold the session's claim. */
  readonly takeOver: 'allowed' | 'forbidden';
}

/**
 * The usable sandboxes of this session, best first: marked before unmarked, running before starting. One with a
 * marker of another session is never among them, nor one without a marker that we did not make.
 */
export async function findSandboxes(ctx: StepContext, options: FindOptions): Promise<readonly Found[]> {
  const { provider, identity, limits } = ctx.deps;
  const { name } = ctx.lane;
  const named = await provider.list({ tags: [name], include: 'active' }, ctx.call(limits.platformMs));
  const alive = named.filter((info) => info.state === 'running' || info.state === 'starting');
  if (alive.length === 0) return [];
  const made = await provider.list(
    { tags: [name, identity.acceptorTag], include: 'active' },
    ctx.call(limits.platformMs),
  );
  const madeByUs = new Set(made.map((info) => info.id));
  const found: Found[] = [];
  for (const info of alive) {
    const marker = info.state === 'running' ? await readMarker(ctx, info) : undefined;
    const usable = marker !== 'damaged' && isUsable(ctx, info, marker, madeByUs, options);
    if (usable) found.push({ info, marker });
    else ctx.log.warn('sandbox under our name left alone: it is not ours', { sandboxId: info.id });
  }
  return found.sort((left, right) => rank(right) - rank(left));
}

function isUsable(
  ctx: StepContext,
  info: SandboxInfo,
  marker: Marker | undefined,
  madeByUs: ReadonlySet<string>,
  options: FindOptions,
): boolean {
  const { outpostId, acceptorId } = ctx.deps.identity;
  if (marker === undefined) return madeByUs.has(info.id);
  if (marker.sessionId !== ctx.sessionId || marker.outpostId !== outpostId) return false;
  return marker.acceptorId === acceptorId || options.takeOver === 'allowed';
}

async function readMarker(ctx: StepContext, info: SandboxInfo): Promise<Marker | 'damaged' | undefined> {
  const { remote, limits } = ctx.deps;
  try {
    return await remote.readMarker({ sandboxId: info.id, paths: info.paths }, ctx.call(limits.platformMs));
  } catch (error) {
    // It ended between the list and the read. Any other failure must not make it look unmarked.
    if (isProviderError(error, 'not-found') || isProviderError(error, 'gone')) return undefined;
    if (error instanceof DvoError && error.code === 'remote') return 'damaged';
    throw error;
  }
}

function rank(found: Found): number {
  return (found.marker === undefined ? 0 : 2) + (found.info.state === 'running' ? 1 : 0);
}
