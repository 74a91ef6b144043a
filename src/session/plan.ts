/**
 * The life of a session as one pure function: from what the queue wants, what we remember and what the machine
 * shows, to the next step. No I/O, no clock, no randomness, no logging. docs/lifecycle.md holds the same as a table,
 * and a test keeps the two equal.
 */
import type { Rules } from './rules.ts';
import type { Ending, Facts, SessionRecord, Sighting } from './session.ts';
import { canBeConfirmed, orderedWish, sleepEnding, wishOf, type Wish } from './wish.ts';
import { planSuspending } from './plan-suspending.ts';
import { planServing } from './plan-serving.ts';
import { confirm, lookSoon, rest, step, waitUntil, type Decision } from './decision.ts';

export interface View {
  readonly now: number;
  readonly sighting: Sighting;
  /** The entry names us as its acceptor. */
  readonly ours: boolean;
  readonly record: SessionRecord | undefined;
  readonly facts: Facts;
  /** This daemon is to hand over everything it serves. */
  readonly draining: boolean;
}

/** A view whose record exists. */
export type RecordView = View & { readonly record: SessionRecord };

export type Planner = (view: View, rules: Rules) => Decision;

export function nextStep(view: View, rules: Rules): Decision {
  const { record, sighting } = view;
  const wanted = wishOf(sighting, view.facts.remote, rules);
  if (record === undefined) return planUnknown(view, wanted, rules);
  if (wanted === 'terminate') return step({ do: 'terminate', why: 'terminated' });
  const wish = orderedWish(wanted, sighting, record.order);
  if (wish === 'terminate') return step({ do: 'terminate', why: 'ordered' });
  if (wish === 'suspend' && keepsNothing(record, rules)) return step({ do: 'terminate', why: 'discarded' });
  const known = { ...view, record };
  switch (record.stage) {
    case 'claimed':
      return planClaimed(known, wish, rules);
    case 'provisioning':
      return planProvisioning(known, wish, rules);
    case 'preparing':
      return planPreparing(known, wish, rules);
    case 'serving':
      return planServing(known, wish, rules);
    case 'suspending':
      return planSuspending(known, wish, rules);
    case 'suspended':
      return planSuspended(known, wish, rules);
    case 'terminating':
      return planTerminating(known, wish, rules);
  }
}

/** We remember nothing of this session. */
function planUnknown(view: View, wish: Wish, rules: Rules): Decision {
  switch (wish) {
    case 'held':
      return step({ do: 'adopt' });
    case 'suspend':
    case 'terminate':
      return view.ours ? step({ do: 'release' }) : rest('over');
    case 'undecided':
      return view.ours && canBeConfirmed(view.sighting) ? confirm(view, rules) : rest('nothing known yet');
    case 'claimable':
      return rest('waiting to be admitted');
    case 'yield':
      return rest('served by another daemon');
  }
}

/** Admitted; nothing has been made for it. */
function planClaimed(view: RecordView, wish: Wish, rules: Rules): Decision {
  const leave = leaving(view, wish, rules);
  if (leave !== undefined) return step({ do: 'withdraw', ending: leave });
  if (wish === 'undecided') return confirm(view, rules);
  return step({ do: wish === 'claimable' ? 'claim' : 'ensure-sandbox' });
}

/** A sandbox has been asked for; whether it exists may be unknown. */
function planProvisioning(view: RecordView, wish: Wish, rules: Rules): Decision {
  const leave = leaving(view, wish, rules);
  if (leave !== undefined) return step({ do: 'withdraw', ending: leave });
  if (wish === 'undecided') return confirm(view, rules);
  if (wish === 'claimable') return step({ do: 'claim' });
  if (view.record.destroyAsked === true)
    return step({ do: 'discard-sandbox', why: 'its end has been asked for' });
  switch (view.facts.sandbox) {
    case 'unknown':
    case 'none':
      return step({ do: 'ensure-sandbox' });
    case 'running':
      return step({ do: 'prepare' });
    case 'ended':
      return step({ do: 'discard-sandbox', why: 'it ended while starting' });
    case 'starting':
      if (view.now - view.record.stageSince >= rules.bootTimeoutMs) {
        return step({ do: 'discard-sandbox', why: 'it did not start in time' });
      }
      return lookSoon(view, rules, 'the sandbox is starting');
  }
}

/** A sandbox of ours runs; marker, repositories and binary are being put into it, then the remote is launched. */
function planPreparing(view: RecordView, wish: Wish, rules: Rules): Decision {
  const leave = leaving(view, wish, rules);
  if (leave !== undefined) return step({ do: 'stop-remote', ending: leave });
  if (wish === 'undecided') return confirm(view, rules);
  if (wish === 'claimable') return step({ do: 'claim' });
  switch (view.facts.sandbox) {
    case 'unknown':
    case 'starting':
      return lookSoon(view, rules, 'the sandbox is being looked at');
    case 'none':
    case 'ended':
      return view.record.launches > rules.restartLimit
        ? step({ do: 'stop-remote', ending: 'give-up' })
        : step({ do: 'ensure-sandbox' });
    case 'running':
      return step({ do: view.record.preparedSha === undefined ? 'prepare' : 'launch' });
  }
}

/** Asleep: the archive is READY and recorded, or the sandbox was kept. */
function planSuspended(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { record } = view;
  if (wish === 'yield') return step({ do: 'forget' });
  if ((record.obsolete ?? []).length > 0) return step({ do: 'tidy' });
  // Its work is in the kept sandbox only, where no other daemon finds it.
  if (record.order === 'release' && record.kept === true)
    return step({ do: 'stop-remote', ending: 'release' });
  if (wish === 'held') return step({ do: 'adopt' });
  if (wish === 'claimable') return rest('waiting to be admitted');
  if (wish === 'suspend' && view.ours) return step({ do: 'release' });
  const expiresAt = record.stageSince + rules.retentionMs;
  if (view.now < expiresAt) return waitUntil(expiresAt, 'asleep');
  // Another daemon may be serving it from this very archive.
  return wish === 'suspend' ? step({ do: 'terminate', why: 'expired' }) : confirm(view, rules);
}

function planTerminating(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { ending, order } = view.record;
  if (ending === 'expire') return step({ do: 'terminate', why: 'expired' });
  if (order !== 'terminate') return step({ do: 'terminate', why: 'terminated' });
  // It was ordered away here only, and another daemon has it by now: what is left may be what that one works from.
  return wish === 'yield' ? step({ do: 'forget' }) : confirm(view, rules);
}

/** Why a session that has no remote yet is to be let go, if it is. */
function leaving(view: RecordView, wish: Wish, rules: Rules): Ending | undefined {
  if (wish === 'suspend') return sleepEnding(view.record);
  if (wish === 'yield') return 'yield';
  if (view.draining) return 'drain';
  return view.record.failures >= rules.stepRetryLimit ? 'give-up' : undefined;
}

/**
 * The operator wants nothing kept of a session that Devin puts to sleep. What a person orders away keeps its work, and one
 * that sleeps already was archived for a reason.
 */
function keepsNothing({ stage, order }: SessionRecord, { suspendMode }: Rules): boolean {
  if (suspendMode !== 'discard' || order !== undefined) return false;
  return stage === 'provisioning' || stage === 'preparing' || stage === 'serving';
}
