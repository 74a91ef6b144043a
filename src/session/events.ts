/**
 * What happened to a session, told from two states of its record. Pure: every change of a record passes here, so no
 * step has to remember to tell. `what` is a constant message; what varies is in `detail`.
 */
import type { Ending, SessionEvent, SessionRecord, Stage } from './session.ts';

/** How many events of one session are kept; the oldest go first. */
export const MOST_EVENTS = 100;
/** A detail is a hint for people; the log has the whole text. */
const LONGEST_DETAIL = 300;

const ENTERED: Readonly<Record<Stage, string>> = {
  claimed: 'claimed',
  provisioning: 'sandbox asked for',
  preparing: 'preparing',
  serving: 'serving',
  suspending: 'being taken down',
  suspended: 'asleep',
  terminating: 'being deleted',
};

const BECAUSE: Readonly<Record<Ending, string>> = {
  suspend: 'the session sleeps',
  'give-up': 'it keeps failing',
  'roll-over': 'its sandbox reaches the end of its lifetime',
  yield: 'another daemon holds the session',
  drain: 'this daemon is being drained',
  release: 'it is handed over by hand',
  expire: 'it slept for longer than archives are kept',
};

/** Oldest first. `before` undefined: the record is new. */
export function eventsBetween(
  before: SessionRecord | undefined,
  after: SessionRecord,
): readonly SessionEvent[] {
  const at = after.updatedAt;
  const events: SessionEvent[] = [];
  const say = (what: string, detail?: string): void => void events.push(event(at, what, detail));
  const { lastError, archive } = after;
  if (lastError !== undefined && lastError.at !== before?.lastError?.at) {
    const { at: when, step, message } = lastError;
    events.push(
      step === 'remote'
        ? event(when, 'remote ended', message)
        : event(when, 'step failed', `${step}: ${message}`),
    );
  }
  if (archive !== undefined && archive.snapshotId !== before?.archive?.snapshotId) {
    say(before === undefined ? 'archive known' : 'archive ready', archive.snapshotId);
  }
  if (after.archiving?.unsupported === true && before?.archiving?.unsupported !== true) {
    say('archives not available: the sandbox will be kept');
  }
  if (after.startEmpty === true && before?.startEmpty !== true) {
    say('archive cannot be restored: starting with an empty workspace');
  }
  if (before?.sandboxId !== undefined && before.sandboxId !== after.sandboxId) {
    say(after.stage === 'suspended' ? 'sandbox destroyed' : 'sandbox gone', before.sandboxId);
  }
  if (after.launches > 1 && after.launches > (before?.launches ?? 0)) {
    say('remote launched again', `launch ${after.launches} in a row`);
  }
  if (after.order !== undefined && after.order !== before?.order) say('ordered by hand', after.order);
  if (after.stage !== before?.stage) events.push({ ...entered(after), at: after.stageSince });
  if (after.sandboxId !== undefined && after.sandboxId !== before?.sandboxId) {
    say('sandbox assigned', after.sandboxId);
  }
  return events;
}

function entered(record: SessionRecord): SessionEvent {
  const { stage, ending } = record;
  const why = stage === 'suspending' && ending !== undefined ? BECAUSE[ending] : undefined;
  const kept = stage === 'suspended' && record.kept === true ? 'its sandbox is kept' : undefined;
  return { ...event(record.stageSince, ENTERED[stage], why ?? kept), stage };
}

export function event(at: number, what: string, detail?: string): SessionEvent {
  return detail === undefined ? { at, what } : { at, what, detail: detail.slice(0, LONGEST_DETAIL) };
}

/**
 * The ring with one more event, in the order of time. The same message as the last one is counted instead of being
 * kept again, so that a step which fails all night does not push out how the night began.
 */
export function withEvent(ring: readonly SessionEvent[], added: SessionEvent): readonly SessionEvent[] {
  const last = ring.at(-1);
  if (last !== undefined && last.what === added.what && last.detail === added.detail && added.at >= last.at) {
    return [...ring.slice(0, -1), { ...last, times: (last.times ?? 1) + 1, lastAt: added.at }];
  }
  let place = ring.length;
  while (place > 0 && (ring[place - 1]?.at ?? 0) > added.at) place -= 1;
  return ring.toSpliced(place, 0, added).slice(-MOST_EVENTS);
}
