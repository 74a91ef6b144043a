/**
 * What the janitor may do with a sandbox that carries our acceptor tag but belongs to no record. Pure. Every
 * doubt ends in "leave": a sandbox too many costs money, one too few costs somebody's work.
 */
import type { FailureHistory, Sighting, SessionRecord } from './session.ts';

export interface Stray {
  readonly state: 'starting' | 'running' | 'ending';
  /** How long this process has known of it, in milliseconds. */
  readonly knownForMs: number;
  /** A create of ours has not been answered, so this sandbox may be the one. */
  readonly createPending: boolean;
  readonly marker: StrayMarker;
}

export type StrayMarker =
  /** Not read yet, or reading it failed. */
  | { readonly kind: 'unread' }
  | { readonly kind: 'none' }
  /** Another daemon has taken it over. */
  | { readonly kind: 'foreign' }
  | { readonly kind: 'ours'; readonly record: SessionRecord | undefined };

export type Verdict =
  | { readonly do: 'leave'; readonly why: string }
  | { readonly do: 'read-marker' }
  | { readonly do: 'adopt' }
  | { readonly do: 'destroy'; readonly why: string };

export function judgeStray(stray: Stray, graceMs: number): Verdict {
  if (stray.state === 'ending') return { do: 'leave', why: 'it is ending' };
  if (stray.state === 'starting') return young(stray, graceMs) ?? { do: 'destroy', why: 'it never started' };
  switch (stray.marker.kind) {
    case 'unread':
      return { do: 'read-marker' };
    case 'foreign':
      return { do: 'leave', why: 'another daemon has it' };
    case 'none':
      return young(stray, graceMs) ?? { do: 'destroy', why: 'nothing was ever put into it' };
    case 'ours':
      return judgeOurs(stray, stray.marker.record, graceMs);
  }
}

function judgeOurs(stray: Stray, record: SessionRecord | undefined, graceMs: number): Verdict {
  // It may hold work: the planner decides, by what the queue wants of its session.
  if (record === undefined) return { do: 'adopt' };
  const early = young(stray, graceMs);
  if (early !== undefined) return early;
  switch (record.stage) {
    case 'claimed':
    case 'provisioning':
      return { do: 'leave', why: 'its session is looking for its sandbox' };
    case 'suspended':
      return record.archive === undefined
        ? { do: 'leave', why: 'its session has no archive' }
        : { do: 'destroy', why: 'its session is archived' };
    case 'preparing':
    case 'serving':
    case 'suspending':
      return { do: 'destroy', why: 'its session has another sandbox' };
    case 'terminating':
      return { do: 'destroy', why: 'its session is over' };
  }
}

function young(stray: Stray, graceMs: number): Verdict | undefined {
  if (stray.createPending) return { do: 'leave', why: 'a create has not been answered' };
  return stray.knownForMs < graceMs ? { do: 'leave', why: 'it is young' } : undefined;
}

/**
 * How many of `condemned` may go in one sweep that saw `total` sandboxes of ours; 0 raises the alarm. A sweep that
 * would take most of the fleet is more likely to be wrong than right.
 */
export function sweepAllowance(condemned: number, total: number): number {
  const cap = Math.max(5, Math.ceil(total / 10));
  if (condemned > 5 && condemned * 2 > total) return 0;
  return Math.min(condemned, cap);
}

/**
 * Whether the failures of a session need not be remembered any more: it has cooled down and left the queue, and we
 * have nothing of it. Should it come back, it deserves a new try.
 */
export function isOutlived(
  history: FailureHistory,
  record: SessionRecord | undefined,
  sighting: Sighting,
  now: number,
): boolean {
  if (record !== undefined || now < history.coolUntil) return false;
  return sighting.gist === 'absent' || sighting.gist === 'terminated';
}
