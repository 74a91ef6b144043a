/** Prometheus series. Each has its values at 0 from the start, and labels from closed lists only. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { STAGES, type Stage } from '../session/session.ts';

const CLAIMS = ['claimed', 'held', 'lost', 'absent', 'failed', 'renewed', 'renew_lost'] as const;
const STEP_RESULTS = ['ok', 'failed', 'deadline'] as const;
const ARCHIVES = ['ready', 'failed', 'unknown', 'unsupported', 'deleted', 'lost'] as const;
const JANITOR = ['sweep', 'adopted', 'destroyed', 'alarm', 'skipped'] as const;
const REFUSALS = ['platform', 'network-policy', 'status', 'phase', 'cooling-down', 'by-hand'] as const;
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
const EXPORTS = ['ok', 'failed'] as const;
const COMMITS = ['ok', 'failed'] as const;
const PLATFORM_CALLS = [
  'sandbox',
  'create',
  'restore',
  'exec',
  'file',
  'snapshot',
  'archive',
  'logs',
] as const;
const PLATFORM_ENDS = [
  'ok',
  'deadline',
  'aborted',
  'not-found',
  'unauthenticated',
  'exhausted',
  'misconfigured',
  'ambiguous',
  'unsupported',
  'archive-failed',
  'invalid',
  'gone',
] as const;
const STEPS =
  'claim adopt look release ensure-sandbox discard-sandbox prepare launch probe checkpoint withdraw stop-remote ' +
  'confirm-owner archive destroy settle revive terminate tidy forget';

/** From a fast claim on loopback to Devin's own limit of five minutes and beyond. Seconds. */
const SPANS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const make = makers(registry);
  const sessions = make.labelled('dvo_sessions', 'Sessions by stage', 'stage', STAGES);
  const paused = make.labelled(
    'dvo_admission_paused',
    '1 while nothing new is claimed, for this reason',
    'reason',
    PAUSES,
  );
  const step = make.counter2(
    'dvo_steps_total',
    'Steps by result',
    ['step', 'result'],
    STEPS.split(' '),
    STEP_RESULTS,
  );
  const request = make.counter2(
    'dvo_api_requests_total',
    'Requests to Devin by operation and HTTP status (error: no answer)',
    ['operation', 'code'],
    OPERATIONS,
    ['200', 'error'],
  );
  const slotsUsed = make.gauge('dvo_slots_used', 'Sessions that have or are getting a machine');
  const slotsMax = make.gauge('dvo_slots_max', 'MAX_CONCURRENT_SESSIONS');
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
  const claim = make.counter('dvo_claims_total', 'Claims and renewals by result', 'result', CLAIMS);
  const archive = make.counter(
    'dvo_archives_total',
    'Archives by result; lost: a sandbox vanished with unsaved work',
    'result',
    ARCHIVES,
  );
  const refused = make.counter(
    'dvo_refused_total',
    'Pending sessions not claimed, by reason',
    'reason',
    REFUSALS,
  );
  const janitor = make.counter('dvo_janitor_total', 'What the janitor did', 'action', JANITOR);
  const reconnect = make.counter(
    'dvo_watch_reconnects_total',
    'Watches opened again, by why the last one ended',
    'reason',
    WATCH_ENDS,
  );
  const stepTook = make.histogram('dvo_step_seconds', 'How long a step takes');
  const apiTook = make.histogram('dvo_api_seconds', 'How long Devin takes to answer');

  return {
    contentType: registry.contentType,
    text: (): Promise<string> => registry.metrics(),
    claim,
    claimedAfter: make.histogram('dvo_enqueued_to_claimed_seconds', 'From the entry’s creation to our claim'),
    servingAfter: make.histogram(
      'dvo_enqueued_to_serving_seconds',
      'From the entry’s creation to a launched remote',
    ),
    step(name: string, result: string, tookMs: number): void {
      step(name, result);
      stepTook(tookMs);
    },
    remoteRestart: (): void => restarts.inc(),
    archive,
    refused,
    admissionPaused: (reason: string, state: 'paused' | 'open'): void =>
      paused(reason, state === 'paused' ? 1 : 0),
    janitor,
    stages(counts: Readonly<Record<Stage, number>>): void {
      for (const stage of STAGES) sessions(stage, counts[stage]);
    },
    slots(used: number, max: number): void {
      slotsUsed.set(used);
      slotsMax.set(max);
    },
    reconnect,
    skipped: (): void => skipped.inc(),
    request(operation: string, code: string, tookMs: number): void {
      request(operation, /^([1-5]\d\d|error)$/.test(code) ? code : 'other');
      apiTook(tookMs);
    },
    platform: platformSeries(registry, make),
    ...written(make),
  };
}

/** What leaves for the disk and for the collector of traces. */
function written(make: ReturnType<typeof makers>) {
  const commit = make.counter('dvo_index_commits_total', 'Writes of the index by result', 'result', COMMITS);
  const commitTook = make.histogram('dvo_index_commit_seconds', 'How long a write of the index takes');
  return {
    commit(result: string, tookMs: number): void {
      commit(result);
      commitTook(tookMs);
    },
    spans: make.counter(
      'dvo_trace_spans_total',
      'Spans for the collector of traces by result; failed ones are lost',
      'result',
      EXPORTS,
    ),
  };
}

/** What the CoreWeave adapter tells of its calls. */
function platformSeries(registry: Registry, make: ReturnType<typeof makers>) {
  const call = make.counter2(
    'dvo_platform_calls_total',
    'Calls to the sandbox platform by operation and result',
    ['operation', 'result'],
    PLATFORM_CALLS,
    PLATFORM_ENDS,
  );
  const took = make.histogram('dvo_platform_seconds', 'How long the sandbox platform takes to answer');
  const rebuilt = new Counter({
    name: 'dvo_platform_clients_total',
    help: 'New clients to the platform, made because the old one was not answered or refused',
    registers: [registry],
  });
  return {
    call(operation: string, result: string, tookMs: number): void {
      call(operation, result);
      took(tookMs);
    },
    rebuilt: (): void => rebuilt.inc(),
  };
}

/** Series with their known label values at 0. */
function makers(registry: Registry) {
  const registers = [registry];
  return {
    counter(
      name: string,
      help: string,
      label: string,
      values: readonly string[],
    ): (value: string, by?: number) => void {
      const series = new Counter({ name, help, labelNames: [label], registers });
      for (const value of values) series.inc({ [label]: value }, 0);
      return (value, by = 1) => series.inc({ [label]: value }, by);
    },
    counter2(
      name: string,
      help: string,
      [first, second]: readonly [string, string],
      firsts: readonly string[],
      seconds: readonly string[],
    ): (one: string, other: string) => void {
      const series = new Counter({ name, help, labelNames: [first, second], registers });
      for (const one of firsts) for (const other of seconds) series.inc({ [first]: one, [second]: other }, 0);
      return (one, other) => series.inc({ [first]: one, [second]: other });
    },
    labelled(
      name: string,
      help: string,
      label: string,
      values: readonly string[],
    ): (value: string, to: number) => void {
      const series = new Gauge({ name, help, labelNames: [label], registers });
      for (const value of values) series.set({ [label]: value }, 0);
      return (value, to) => series.set({ [label]: value }, to);
    },
    gauge: (name: string, help: string) => new Gauge({ name, help, registers }),
    /** Observes milliseconds, exports seconds. */
    histogram(name: string, help: string): (ms: number) => void {
      const series = new Histogram({ name, help, buckets: SPANS, registers });
      return (ms) => series.observe(Math.max(0, ms) / 1_000);
    },
  };
}
