/**
 * Finding a session's sandbox on the platform. Names are tags only, lists may lag and may show several; the marker
 * in the volume says whose a sandbox is.
 */
import { DvoError } from '../../lib/errors.ts';
import type { Call } from '../../lib/deadline.ts';
import type { Marker, RemoteControl } from '../../remote/port.ts';
import { isGone, type SandboxInfo } from '../../sandboxes/provider.ts';
import type { StepContext } from '../context.ts';

export interface Found {
  readonly info: SandboxInfo;
  /** Something was put into it, so it may hold work that no archive has. */
  readonly used: boolean;
  /** The other acceptor that marked it. */
  readonly takenFrom: string | undefined;
}

export interface Finds {
  /** Usable sandboxes of this session, best first: used before unused, running before starting. */
  readonly usable: readonly Found[];
  /** Made by us for this session and never used, but not for what we need now. */
  readonly spares: readonly SandboxInfo[];
}

export interface FindOptions {
  /** Whether a sandbox that another daemon marked counts: only while we hold the session's claim. */
  readonly takeOver: 'allowed' | 'forbidden';
}

/**
 * A marker that is garbled in so many reads on end is damaged; until then it may be the reading that failed. In a sandbox
 * that we did not make it stays a failure: beginning anew beside it would leave somebody's work behind.
 */
const READ_TRIES = 3;
const READ_AGAIN_MS = 500;

/** An unused sandbox is used only when it is the one that was asked for last: another may hold an older archive. */
export async function findSandboxes(ctx: StepContext, options: FindOptions): Promise<Finds> {
  const { provider, identity, limits } = ctx.deps;
  const { name } = ctx.lane;
  const list = async (...tags: readonly string[]): Promise<readonly SandboxInfo[]> =>
    await provider.list({ tags: [name, ...tags], include: 'active' }, ctx.call(limits.platformMs));
  const alive = (await list()).filter((info) => info.state === 'running' || info.state === 'starting');
  if (alive.length === 0) return { usable: [], spares: [] };
  const { createTag } = ctx.record;
  const madeByUs = new Set((await list(identity.acceptorTag)).map((info) => info.id));
  const asked = createTag === undefined ? [] : await list(createTag);
  const askedFor = new Set(asked.map((info) => info.id));
  const usable: Found[] = [];
  const spares: SandboxInfo[] = [];
  for (const info of alive) {
    const made = madeByUs.has(info.id);
    const marker = info.state === 'running' ? await readMarker(ctx, info, made) : undefined;
    if (marker === undefined) {
      if (askedFor.has(info.id)) usable.push({ info, used: false, takenFrom: undefined });
      else if (made) spares.push(info);
      continue;
    }
    const owner = marker === 'damaged' ? identity.acceptorId : marker.acceptorId;
    const takenFrom = owner === identity.acceptorId ? undefined : owner;
    if (isOfSession(ctx, marker) && (takenFrom === undefined || options.takeOver === 'allowed')) {
      usable.push({ info, used: true, takenFrom });
    } else ctx.log.warn('sandbox under our name left alone: it is not ours', { sandboxId: info.id });
  }
  return { usable: usable.sort((left, right) => rank(right) - rank(left)), spares };
}

function isOfSession(ctx: StepContext, marker: Marker | 'damaged'): boolean {
  // We made it under this session's name, so what is in it is this session's, whatever became of the marker.
  if (marker === 'damaged') return true;
  return marker.sessionId === ctx.sessionId && marker.outpostId === ctx.deps.identity.outpostId;
}

async function readMarker(
  ctx: StepContext,
  info: SandboxInfo,
  made: boolean,
): Promise<Marker | 'damaged' | undefined> {
  const { remote, limits, clock } = ctx.deps;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ownMarker(remote, info, ctx.call(limits.platformMs));
    } catch (error) {
      // It ended between the list and the read. Any other failure must not make it look unused.
      if (isGone(error)) return undefined;
      const isGarbled = error instanceof DvoError && error.code === 'remote';
      if (!isGarbled || !made) throw error;
      if (tries >= READ_TRIES) return 'damaged';
      await clock.sleep(READ_AGAIN_MS, ctx.call(limits.platformMs).signal);
    }
  }
}

/**
 * The marker that was put into this very sandbox; one that came with a restored archive says nothing of it.
 * @throws what `readMarker` throws
 */
export async function ownMarker(
  remote: RemoteControl,
  info: SandboxInfo,
  call: Call,
): Promise<Marker | undefined> {
  const marker = await remote.readMarker({ sandboxId: info.id, paths: info.paths }, call);
  return marker?.sandboxId === info.id ? marker : undefined;
}

function rank(found: Found): number {
  return (found.used ? 2 : 0) + (found.info.state === 'running' ? 1 : 0);
}
