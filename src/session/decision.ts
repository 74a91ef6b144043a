/** What the planner can answer: do one step, or wait. */
import type { Rules } from './rules.ts';
import type { Ending, Facts, Sighting } from './session.ts';
import { canBeConfirmed } from './wish.ts';

/**
 * Why everything of a session goes. terminated: Devin has ended it · ordered: a person has, here · expired: it slept for
 * longer than archives are kept · discarded: Devin puts it to sleep, and SUSPEND_MODE keeps nothing of it.
 */
export type GiveUp = 'terminated' | 'ordered' | 'expired' | 'discarded';

/** One step with the outside; each is safe to repeat. */
export type Step =
  /** Compare-and-set in the queue: takes the session, or takes it again when the claim has lapsed. */
  | { readonly do: 'claim' }
  /** The queue says it is ours and we have no machine at work for it: take it up, or give it back when full. */
  | { readonly do: 'adopt' }
  /** Reads the session's entry, to confirm what it seems to say. */
  | { readonly do: 'look' }
  /** Gives back a claim with nothing behind it. */
  | { readonly do: 'release' }
  /** Finds the session's sandbox by name, adopts it, or asks for one. */
  | { readonly do: 'ensure-sandbox' }
  /** Destroys a sandbox that failed to start, and counts the failure. */
  | { readonly do: 'discard-sandbox'; readonly why: string }
  /** Marker, directories, repositories, verified binary. */
  | { readonly do: 'prepare' }
  /** A fresh connect token, then devin-remote. */
  | { readonly do: 'launch' }
  /** Looks at the sandbox and the remote. */
  | { readonly do: 'probe' }
  /** Archives a session that goes on serving. */
  | { readonly do: 'checkpoint' }
  /** Lets go of a session without a remote: what exists of a machine goes on to be taken down. */
  | { readonly do: 'withdraw'; readonly ending: Ending }
  /** Writes why the machine is taken down, then stops the remote. */
  | { readonly do: 'stop-remote'; readonly ending: Ending }
  /** Reads the marker: has the new holder adopted the sandbox? */
  | { readonly do: 'confirm-owner' }
  /** Archives the workspace, or goes on looking at the archive that was asked for. */
  | { readonly do: 'archive' }
  | { readonly do: 'destroy' }
  /** The machine is gone (or kept): release, and what the ending says. */
  | { readonly do: 'settle' }
  /** The archive fails but the session is wanted: serve it again in the sandbox that still holds its work. */
  | { readonly do: 'revive' }
  /** Deletes everything of the session: sandbox, archives, claim, record. */
  | { readonly do: 'terminate'; readonly why: GiveUp }
  /** Deletes archives that nothing needs any more. */
  | { readonly do: 'tidy' }
  /** Drops the record and touches nothing else. */
  | { readonly do: 'forget' };

export type StepName = Step['do'];

export type Decision =
  | { readonly kind: 'step'; readonly step: Step }
  /** Look again at `until` (milliseconds since the epoch), or when something changes; undefined: only then. */
  | { readonly kind: 'wait'; readonly until: number | undefined; readonly why: string };

export const step = (what: Step): Decision => ({ kind: 'step', step: what });
export const waitUntil = (until: number, why: string): Decision => ({ kind: 'wait', until, why });
export const rest = (why: string): Decision => ({ kind: 'wait', until: undefined, why });

/** Reads the entry again, at the rules' pace; rests where reading cannot help. */
export function confirm(
  view: { readonly now: number; readonly sighting: Sighting; readonly facts: Facts },
  rules: Rules,
): Decision {
  if (!canBeConfirmed(view.sighting)) return rest('the queue does not say what it wants');
  const dueAt = (view.facts.confirmedAt ?? Number.NEGATIVE_INFINITY) + rules.confirmEveryMs;
  return view.now >= dueAt ? step({ do: 'look' }) : waitUntil(dueAt, 'confirming what the queue says');
}

/** Eight seconds at the usual pace. */
const MOST_DOUBLINGS = 4;

/** Looks at a machine that is coming up, or is not seen: soon again, later while looks fail. */
export function lookSoon(
  { now, facts }: { readonly now: number; readonly facts: Facts },
  rules: Rules,
  why: string,
): Decision {
  const { probedAt, unanswered = 0 } = facts;
  const everyMs = rules.bootPollMs * 2 ** Math.min(unanswered, MOST_DOUBLINGS);
  const dueAt = probedAt === undefined ? now : probedAt + everyMs;
  return now >= dueAt ? step({ do: 'probe' }) : waitUntil(dueAt, why);
}

/** The more urgent of two decisions: a step before a wait, the earlier wait before the later. */
export function soonest(first: Decision, second: Decision): Decision {
  if (first.kind === 'step') return first;
  if (second.kind === 'step') return second;
  return (first.until ?? Infinity) <= (second.until ?? Infinity) ? first : second;
}
