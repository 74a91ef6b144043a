/** What the motor counts. ops/metrics.ts keeps the counts; the simulation and tests may keep their own. */
import type { Stage } from '../session/session.ts';

export type ClaimOutcome = 'claimed' | 'held' | 'lost' | 'absent' | 'failed' | 'renewed' | 'renew_lost';
export type StepOutcome = 'ok' | 'failed' | 'deadline' | 'stale';
export type ArchiveOutcome = 'ready' | 'failed' | 'unknown' | 'unsupported' | 'deleted' | 'lost';
export type JanitorAction = 'sweep' | 'adopted' | 'destroyed' | 'left' | 'alarm' | 'skipped';

export interface Recorder {
  claim(outcome: ClaimOutcome): void;
  /** Milliseconds from the entry's creation. */
  claimedAfter(ms: number): void;
  servingAfter(ms: number): void;
  step(name: string, outcome: StepOutcome, tookMs: number): void;
  remoteRestart(): void;
  archive(outcome: ArchiveOutcome): void;
  refused(reason: string): void;
  admissionPaused(reason: string, state: 'paused' | 'open'): void;
  janitor(action: JanitorAction): void;
  stages(counts: Readonly<Record<Stage, number>>): void;
  slots(used: number, max: number): void;
}
