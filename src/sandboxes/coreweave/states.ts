/** The platform's words for a sandbox and an archive, in the port's. Pure. */
import type { Redactor } from '../../lib/secret.ts';
import type { SandboxInfo, SandboxState, SnapshotInfo, SnapshotState } from '../provider.ts';
import { COREWEAVE_PATHS } from './main-command.ts';
import type { SdkMetadata, SdkSnapshot } from './sdk.ts';

/**
 * paused, and any status that a later version adds, count as `ending`: nothing can run in it, it is never adopted, and
 * nobody but its own lifetime ends it, because it may hold work. `unspecified` is how some ended sandboxes read.
 */
export function stateOf(status: string | undefined): SandboxState {
  switch (status) {
    case 'pending':
    case 'creating':
    // A create's answer may come before the first status.
    case undefined:
      return 'starting';
    case 'running':
      return 'running';
    case 'completed':
    case 'failed':
    case 'terminated':
    case 'unspecified':
      return 'ended';
    default:
      return 'ending';
  }
}

export function sandboxInfo(metadata: SdkMetadata, redactor: Redactor): SandboxInfo {
  const { sandboxId, status, statusReason, startedAt } = metadata;
  const state = stateOf(status);
  // The plain states explain themselves; where ours is coarser, the platform's word is part of the reason.
  const words = [state === 'ended' || state === 'ending' ? status : undefined, statusReason];
  const reason = words.filter((word) => word !== undefined && word !== '').join(': ');
  return {
    id: sandboxId,
    state,
    ...(reason === '' ? {} : { reason: redactor.scrub(reason) }),
    ...(startedAt === undefined ? {} : { startedAt: startedAt.getTime() }),
    paths: COREWEAVE_PATHS,
  };
}

export function snapshotInfo(snapshot: SdkSnapshot, redactor: Redactor): SnapshotInfo {
  const { snapshotId, state, stateReason, sourceSandboxId, sizeBytes, createdAt } = snapshot;
  return {
    id: snapshotId,
    state: snapshotState(state),
    ...(stateReason === undefined || stateReason === '' ? {} : { reason: redactor.scrub(stateReason) }),
    ...(sourceSandboxId === undefined ? {} : { sourceSandboxId }),
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(createdAt === undefined ? {} : { createdAt: createdAt.getTime() }),
  };
}

/** An unknown state is not "ready" and not "failed": it is looked at again. */
function snapshotState(state: string): SnapshotState {
  return state === 'ready' || state === 'failed' || state === 'deleting' ? state : 'creating';
}
