/** Prometheus series. Each has its values at 0 from the start, and labels from closed lists only. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { STAGES, type Stage } from '../session/session.ts';

const CLAIMS = ['claimed', 'held', 'lost', 'absent', 'failed', 'renewed', 'renew_lost'] as const;
const STEP_RESULTS = ['ok', 'failed', 'deadline'] as const;
const ARCHIVES = ['ready', 'failed', 'unknown', 'unsupported', 'deleted', 'lost'] as const;
const JANITOR = ['sweep', 'adopted', 'destroyed', 'alarm', 'skipped'] as const;
const REFUSALS = ['platform', 'network-policy', 'status', 'phase', 'cooling-down'] as const;
const PAUSES = [
  'starting',
  'devin-credentials',
  'platform-credentials',
  'platform-request',
  'state',
  'stopping',
] as const;
const WATCH_ENDS = ['ended', 'idle', 'withheld', 'failed', 'expired'] as const;
const OPERATIONS = ['list', 'watch', 'get', 'claim', 'release'] as const;
const COMMITS = ['ok', 'failed'] as const;
const STEPS = [
  ...['claim', 'adopt', 'look', 'release', 'ensure-sandbox', 'discard-sandbox', 'prepare', 'launch', 'probe'],
  ...['checkpoint', 'withdraw', 'stop-remote', 'confirm-owner', 'archive', 'destroy', 'settle', 'revive'],
  ...['terminate', 'tidy', 'forget'],
];

/** From a fast claim on loopback to Devin's own limit of five minutes and beyond. Seconds. */
const SPANS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const counter = <Label extends string>(
    name: string,
    help: string,
    label: Label,
    values: readonly string[],
  ) => {
    const series = new Counter({ name, help, labelNames: [label], registers: [registry] });
    for (const value of values) series.inc(labels(label, value), 0);
    return (value: string): void => series.inc(labels(label, value));
  };
  const histogram = (name: string, help: string) => {
    const series = new Histogram({ name, help, buckets: SPANS, registers: [registry] });
    return (ms: number): void => series.observe(Math.max(0, ms) / 1_000);
  };
  const gauge = (name: string, help: string) => new Gauge({ name, help, registers: [registry] });

  const sessions = new Gauge({
    name: 'dvo_sessions',
    help: 'Sessions by stage',
    labelNames: ['stage'],
    registers: [registry],
  });
  for (const stage of STAGES) sessions.set({ stage }, 0);
  const paused = new Gauge({
    name: 'dvo_admission_paused',
    help: '1 while nothing new is claimed, for this reason',
    labelNames: ['reason'],
    registers: [registry],
  });
  for (const reason of PAUSES) paused.set({ reason }, 0);
  const steps = new Counter({
    name: 'dvo_steps_total',
    help: 'Steps by result',
    labelNames: ['step', 'result'],
    registers: [registry],
  });
  for (const step of STEPS) for (const result of STEP_RESULTS) steps.inc({ step, result }, 0);
  const requests = new Counter({
    name: 'dvo_api_requests_total',
    help: 'Requests to Devin by operation and HTTP status (error: no answer)',
    labelNames: ['operation', 'code'],
    registers: [registry],
  });
  for (const operation of OPERATIONS)
    for (const code of ['200', 'error']) requests.inc({ operation, code }, 0);
  const slotsUsed = gauge('dvo_slots_used', 'Sessions that have or are getting a machine');
  const slotsMax = gauge('dvo_slots_max', 'MAX_CONCURRENT_SESSIONS');
  const restarts = new Counter({
    name: 'dvo_remote_restarts_total',
    help: 'Relaunches of a remote',
    registers: [registry],
  });
  const skipped = new Counter({
    name: 'dvo_queue_skipped_total',
    help: 'Queue rows and events that could not be read',
    registers: [registry],
  });
  const claim = counter('dvo_claims_total', 'Claims and renewals by result', 'result', CLAIMS);
  const archive = counter(
    'dvo_archives_total',
    'Archives by result; lost: a sandbox vanished with unsaved work',
    'result',
    ARCHIVES,
  );
  const refused = counter('dvo_refused_total', 'Pending sessions not claimed, by reason', 'reason', REFUSALS);
  const janitor = counter('dvo_janitor_total', 'What the janitor did', 'action', JANITOR);
  const reconnect = counter(
    'dvo_watch_reconnects_total',
    'Watches opened again, by why the last one ended',
    'reason',
    WATCH_ENDS,
  );
  const commit = counter('dvo_index_commits_total', 'Writes of the index by result', 'result', COMMITS);
  const commitTook = histogram('dvo_index_commit_seconds', 'How long a write of the index takes');
  const stepTook = histogram('dvo_step_seconds', 'How long a step takes');
  const apiTook = histogram('dvo_api_seconds', 'How long Devin takes to answer');

  return {
    contentType: registry.contentType,
    text: (): Promise<string> => registry.metrics(),
    claim,
    claimedAfter: histogram('dvo_enqueued_to_claimed_seconds', 'From the entry’s creation to our claim'),
    servingAfter: histogram(
      'dvo_enqueued_to_serving_seconds',
      'From the entry’s creation to a launched remote',
    ),
    step(step: string, result: string, tookMs: number): void {
      steps.inc({ step, result });
      stepTook(tookMs);
    },
    remoteRestart: (): void => restarts.inc(),
    archive,
    refused,
    admissionPaused: (reason: string, state: 'paused' | 'open'): void =>
      paused.set({ reason }, state === 'paused' ? 1 : 0),
    janitor,
    stages(counts: Readonly<Record<Stage, number>>): void {
      for (const stage of STAGES) sessions.set({ stage }, counts[stage]);
    },
    slots(used: number, max: number): void {
      slotsUsed.set(used);
      slotsMax.set(max);
    },
    reconnect,
    skipped: (): void => skipped.inc(),
    request(operation: string, code: string, tookMs: number): void {
      requests.inc({ operation, code: /^([1-5]\d\d|error)$/.test(code) ? code : 'other' });
      apiTook(tookMs);
    },
    commit(result: string, tookMs: number): void {
      commit(result);
      commitTook(tookMs);
    },
  };
}

function labels<Label extends string>(label: Label, value: string): Record<Label, string>;
function labels(label: string, value: string): Record<string, string> {
  return { [label]: value };
}
