/** What is said before and after an order. Pure. */
import type { SessionView } from '../../ops/view.ts';
import type { Order } from '../../session/session.ts';

/** What the person agrees to. */
export function question({ sessionId, stage }: SessionView, order: Order): string {
  const alive = stage === 'suspended' || stage === 'terminating' ? '' : ` ${ALIVE}`;
  switch (order) {
    case 'suspend':
      return `${sessionId} (${stage}): stop it, and archive its workspace and destroy its sandbox (or keep it, where SUSPEND_MODE says so)?${alive}`;
    case 'release':
      return `${sessionId} (${stage}): stop it, archive its workspace, destroy its sandbox and give it back to the queue?${alive}`;
    case 'terminate':
      return `${sessionId} (${stage}): delete its sandbox, its workspace and every archive, for good?${alive}`;
  }
}

const ALIVE =
  'If Devin still wants it then, another daemon may take it; this one leaves it alone for six minutes.';

export function outcome(order: Order, left: SessionView | undefined): string {
  if (left === undefined) {
    return order === 'terminate' ? 'nothing of it is left here' : 'let go; nothing of it is kept here';
  }
  if (left.sandboxId !== undefined) return `asleep; its sandbox ${left.sandboxId} is kept`;
  return left.archive === undefined
    ? 'asleep'
    : `asleep; its workspace is archive ${left.archive.snapshotId}`;
}
