/** Words for stages, ages and times. No DOM here. */

export const STAGE_WORDS = {
  queued: 'Queued',
  claimed: 'Claimed',
  provisioning: 'Getting a sandbox',
  preparing: 'Preparing',
  serving: 'Serving',
  suspending: 'Being archived',
  suspended: 'Asleep',
  terminating: 'Being deleted',
};

/** "3 s", "12 min", "5 h 20 min", "4 d 3 h". */
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  const days = Math.floor(hours / 24);
  return hours % 24 === 0 ? `${days} d` : `${days} d ${hours % 24} h`;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dated = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** In the reader's time zone; with the day when it is not of the last 12 hours. */
export function moment(at, now) {
  return Math.abs(now - at) < 12 * 3_600_000 ? clock.format(at) : dated.format(at);
}

/** Whether the last error still says something of now: nothing has got further since. */
export function isCurrent({ lastError, since, archive }) {
  if (lastError === undefined || lastError.at < since) return false;
  return archive === undefined || archive.takenAt <= lastError.at;
}

/** The stretches of a session's life, oldest first: `{stage, from, to}`. */
export function stretches(session, now) {
  const marks = session.events
    .filter((event) => event.stage !== undefined || event.what === 'queued')
    .map((event) => ({ stage: event.stage ?? 'queued', from: event.at }));
  if (marks.length === 0) marks.push({ stage: session.stage, from: session.since });
  return marks.map((mark, at) => ({ ...mark, to: marks[at + 1]?.from ?? Math.max(now, mark.from) }));
}
