/** Whom to claim. Pure; the slots are counted in orchestrator/admission-gate.ts. */
import type { FailureHistory, NetworkPolicy, Order, QueueEntry } from './session.ts';

/** Why a pending entry is not claimed now. */
export type Refusal = 'platform' | 'network-policy' | 'status' | 'phase' | 'cooling-down' | 'by-hand';

export type Admission =
  | { readonly kind: 'admissible' }
  /** `until`: when to ask again; absent: when the entry changes. Milliseconds since the epoch. */
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly until?: number };

export interface AdmissionRules {
  /** Whether this provider, as configured, can keep a sandbox within the policy. */
  readonly canEnforce: (policy: NetworkPolicy | undefined) => boolean;
}

/** Only what is known to be alive and what we can serve. Anything newer than we know is left to others. */
export function admission(
  entry: QueueEntry,
  failures: FailureHistory | undefined,
  now: number,
  rules: AdmissionRules,
): Admission {
  if (entry.phase !== 'pending') return { kind: 'refused', refusal: 'phase' };
  if (entry.status !== 'pending' && entry.status !== 'running') return { kind: 'refused', refusal: 'status' };
  if (entry.platform !== 'linux') return { kind: 'refused', refusal: 'platform' };
  if (!rules.canEnforce(entry.networkPolicy)) return { kind: 'refused', refusal: 'network-policy' };
  if (failures !== undefined && now < failures.coolUntil) {
    const refusal = failures.byHand === true ? 'by-hand' : 'cooling-down';
    return { kind: 'refused', refusal, until: failures.coolUntil };
  }
  return { kind: 'admissible' };
}

/** Waits grow per session: none for a first or second attempt, then one minute doubling to one hour. */
export function coolDownMs(attempts: number): number {
  if (attempts < 2) return 0;
  return Math.min(3_600_000, 60_000 * 2 ** (attempts - 2));
}

/**
 * How long a session that was ended by hand is left alone here: a minute longer than Devin waits for a machine, so that
 * either another daemon has taken it or Devin has let it go. What Devin wants even then is served again.
 */
const LEFT_ALONE_MS = 360_000;

/** Put beside the record when an order is done; nothing is held against the session. */
export function leftAlone(
  sessionId: string,
  known: FailureHistory | undefined,
  order: Order,
  now: number,
): FailureHistory {
  const coolUntil = Math.max(known?.coolUntil ?? 0, now + LEFT_ALONE_MS);
  return { sessionId, attempts: known?.attempts ?? 0, coolUntil, reason: `dvo ${order}`, byHand: true };
}
