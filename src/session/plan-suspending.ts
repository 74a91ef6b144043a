/**
 * Stage `suspending`: the machine is taken down and its workspace archived. Pure; see plan.ts.
 *
 * Guarantee: `destroy` is only answered when the volume's content is in an archive that was taken after the remote
 * stopped and was seen READY, or holds nothing of the session's own.
 */
import { lookSoon, step, waitUntil, type Decision } from './decision.ts';
import type { RecordView } from './plan.ts';
import type { Rules } from './rules.ts';
import type { Ending, SessionRecord } from './session.ts';
import type { Wish } from './wish.ts';

export function planSuspending(view: RecordView, wish: Wish, rules: Rules): Decision {
  switch (view.facts.sandbox) {
    case 'none':
    case 'ended':
      return step({ do: 'settle' });
    case 'starting':
      if (view.record.fresh === true) return step({ do: 'destroy' });
      return lookSoon(view, rules, 'the sandbox is being looked at');
    case 'unknown':
      return lookSoon(view, rules, 'the sandbox is being looked at');
    case 'running':
      return takeDown(view, wish, rules);
  }
}

function takeDown(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { record, now } = view;
  const ending = record.ending ?? 'suspend';
  if (record.remoteStoppedAt === undefined) return step({ do: 'stop-remote', ending });
  if (ending === 'yield' && record.ownerConfirmed !== true) {
    // The new holder adopts a running sandbox and rewrites its marker; then it is not ours to touch.
    const graceOver = record.remoteStoppedAt + rules.yieldGraceMs;
    return now >= graceOver
      ? step({ do: 'confirm-owner' })
      : waitUntil(graceOver, 'the new holder may adopt the sandbox');
  }
  if (record.fresh === true || isArchived(record)) return step({ do: 'destroy' });
  if (rules.suspendMode === 'keep' && ends(ending)) return step({ do: 'settle' });
  const { unsupported, retryAt = now } = record.archiving ?? {};
  if (unsupported === true && now < retryAt) return withoutArchives(ending);
  return planArchive(view, ending, wish, rules);
}

/** Endings that only this daemon wanted, or Devin for a while. */
const REVIVED: ReadonlySet<Ending> = new Set(['suspend', 'roll-over', 'drain']);

function planArchive(view: RecordView, ending: Ending, wish: Wish, rules: Rules): Decision {
  const { record, now } = view;
  const retryAt = record.archiving?.retryAt;
  if (retryAt === undefined || now >= retryAt) return step({ do: 'archive' });
  const wanted = wish === 'held' || wish === 'claimable';
  // Its archive fails, but its work is still here and somebody wants to go on with it.
  if (wanted && !view.draining && REVIVED.has(ending)) return step({ do: 'revive' });
  // It would hold its claim and its slot for as long as that lasts.
  const stoppedAt = record.remoteStoppedAt ?? now;
  if (ending === 'give-up' && now >= stoppedAt + rules.archivePatienceMs) return step({ do: 'settle' });
  return waitUntil(retryAt, 'the archive failed; trying again');
}

/** The platform has no archives for this account: the work stays where it is. */
function withoutArchives(ending: Ending): Decision {
  if (ending === 'roll-over') return step({ do: 'revive' });
  return ending === 'yield' ? step({ do: 'forget' }) : step({ do: 'settle' });
}

/** Endings after which this daemon has no further use for the running sandbox. */
function ends(ending: Ending): boolean {
  return ending === 'suspend' || ending === 'give-up' || ending === 'drain';
}

function isArchived(record: SessionRecord): boolean {
  return (
    record.archive !== undefined &&
    record.archive.sandboxId === record.sandboxId &&
    record.archive.takenAt > (record.remoteStoppedAt ?? Infinity)
  );
}
