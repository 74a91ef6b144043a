/** Whom to claim. Pure; the slots are counted in orchestrator/admission-gate.ts. */
import type { FailureHistory, NetworkPolicy, QueueEntry } from './session.ts';

/** Why a pending entry is not claimed now. */
export type Refusal = 'platform' | 'network-policy' | 'status' | 'phase' | 'cooling-down';

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
    return { kind: 'refused', refusal: 'cooling-down', until: failures.coolUntil };
  }
  return { kind: 'admissible' };
}

/** Waits grow per session: none for a first or second attempt, then one minute doubling to one hour. */
export function coolDownMs(attempts: number): number {
  if (attempts < 2) return 0;
  return Math.min(3_600_000, 60_000 * 2 ** (attempts - 2));
}
