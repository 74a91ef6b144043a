/** Status views with any number of sessions, for the page: every stage, errors, archives, long lives. */
import type { LoadSample, SessionView, StatusView } from '../../src/ops/view.ts';

const STAGES = [
  'serving',
  'serving',
  'serving',
  'suspended',
  'preparing',
  'suspended',
  'claimed',
  'suspending',
] as const;
const MINUTE = 60_000;

export function sampleSession(at: number, now: number, sessionId = sampleId(at)): SessionView {
  const stage = STAGES[at % STAGES.length] ?? 'serving';
  const createdAt = now - (at + 1) * 17 * MINUTE;
  const since = now - (at % 7) * 9 * MINUTE - 20_000;
  const events = lifeOf(stage, createdAt, since);
  const fault = {
    at: since + 4_000,
    step: 'ensure-sandbox',
    message: 'create sandbox: no capacity in us-east-02a',
  };
  return {
    sessionId,
    name: `dvo-1a2b3c4d-devin-${at}`,
    stage,
    since,
    createdAt,
    ...(stage === 'suspended' || stage === 'claimed'
      ? {}
      : { sandboxId: `sbx-9f3e${String(at).padStart(6, '0')}` }),
    sandbox: stage === 'suspended' ? 'none' : 'running',
    remote: stage === 'serving' ? 'running' : 'unknown',
    ...(stage === 'serving' ? { lifetimeEndsAt: now + 5 * 60 * MINUTE } : {}),
    restarts: at % 13 === 5 ? 2 : 0,
    ...(stage === 'suspended' || at % 3 === 0
      ? { archive: { snapshotId: `snap-${at}`, takenAt: stage === 'suspended' ? since : since - MINUTE } }
      : {}),
    ...(at % 11 === 4
      ? {
          lastError: {
            ...fault,
            hint: 'the platform gave no sandbox: see its capacity and the account’s quota',
          },
        }
      : {}),
    events,
  };
}

function sampleId(at: number): string {
  return `devin-${(at * 2_654_435_761).toString(16).padStart(12, '0').slice(0, 12)}7c4e91`;
}

function lifeOf(stage: SessionView['stage'], from: number, since: number): SessionView['events'] {
  const start: SessionView['events'] = [
    { at: from - 8_000, what: 'queued' },
    { at: from, what: 'claimed', stage: 'claimed' },
  ];
  if (stage === 'claimed') return start;
  start.push(
    { at: from + 900, what: 'sandbox asked for', stage: 'provisioning' },
    { at: from + 9_000, what: 'sandbox assigned', detail: 'sbx-1' },
    { at: from + 9_500, what: 'preparing', stage: 'preparing' },
  );
  if (stage === 'preparing') return start;
  start.push({ at: from + 31_000, what: 'serving', stage: 'serving' });
  if (stage === 'suspending' || stage === 'suspended') {
    start.push(
      { at: since - 25_000, what: 'being taken down', detail: 'the session sleeps', stage: 'suspending' },
      { at: since - 2_000, what: 'archive ready', detail: 'snap-1' },
    );
  }
  if (stage === 'suspended') start.push({ at: since, what: 'asleep', stage: 'suspended' });
  return start;
}

export function sampleView(count: number, now: number, waiting = Math.floor(count / 4)): StatusView {
  const max = Math.max(5, Math.ceil(count * 0.8));
  const sessions = Array.from({ length: count }, (_, at) => sampleSession(at, now));
  const used = sessions.filter(({ stage }) => stage !== 'suspended').length;
  const order = ['serving', 'preparing', 'claimed', 'suspending', 'suspended'];
  sessions.sort((left, right) => order.indexOf(left.stage) - order.indexOf(right.stage));
  const load: LoadSample[] = Array.from({ length: 200 }, (_, at) => ({
    at: now - (200 - at) * 15_000,
    used: Math.round(used * (0.6 + 0.4 * Math.sin(at / 30) ** 2)),
    max,
    waiting: Math.round(waiting * Math.abs(Math.sin(at / 21))),
  }));
  return {
    at: now,
    outpostId: 'outpost_env-5f2c77d0a1b94e3f',
    acceptorId: 'dvo-3fa85f6457174562',
    daemon: {
      version: '0.1.0',
      provider: 'coreweave',
      startedAt: now - 26 * 60 * MINUTE,
      ready: { ok: true, reasons: [] },
      admission: [],
    },
    slots: { used, max },
    sessions,
    waiting: Array.from({ length: Math.min(waiting, 200) }, (_, at) => ({
      sessionId: sampleId(at + 9_000),
      createdAt: now - at * 31_000,
      reason: 'no-slot',
      why: `no free slot: ${used} of ${max} are taken`,
      hint: 'it is claimed when one comes free; MAX_CONCURRENT_SESSIONS sets how many there are',
    })),
    waitingCount: waiting,
    ended: [],
    load,
  };
}
