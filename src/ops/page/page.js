/** The status page: keeps the view as the stream tells it, and shows it. It changes nothing and sends nothing. */
import { drawCurve, foreign, make } from './drawing.js';
import { SessionTable } from './sessions.js';
import { isCurrent, moment, span, STAGE_WORDS } from './words.js';

/** Three missed signs of life. */
const SILENCE_MS = 16_000;
const RETRY_MS = 3_000;
const MOST_FAULTS = 5;
/** Who is next and why nothing moves; the whole line is told by GET /api/status. */
const MOST_WAITING = 20;

const byId = (id) => document.getElementById(id);
const table = new SessionTable();
let view;
const sessions = new Map();
/** The daemon's clock minus ours: ages must not depend on the reader's clock. */
let ahead = 0;
let heardAt = performance.now();
let source;
/** The session is over: nothing comes any more until somebody logs in, which loads the page anew. */
let isSignedOut = false;
const now = () => Date.now() + ahead;

function connect() {
  source = new EventSource('/api/events');
  source.addEventListener('view', ({ data }) => {
    const { sessions: rows, ...rest } = JSON.parse(data);
    sessions.clear();
    for (const row of rows) sessions.set(row.name, row);
    heard({ ...rest });
  });
  source.addEventListener('change', ({ data }) => {
    const { sessions: rows, gone, ...rest } = JSON.parse(data);
    for (const name of gone) sessions.delete(name);
    for (const row of rows) sessions.set(row.name, row);
    heard({ ...view, ...rest });
  });
  source.addEventListener('tick', ({ data }) => heard({ ...view, ...JSON.parse(data) }));
  source.addEventListener('error', () => {
    lost('Not connected. Trying again…');
    // The browser tries again by itself unless the answer was a refusal.
    if (source.readyState === EventSource.CLOSED) setTimeout(reconnect, RETRY_MS);
  });
}

async function reconnect() {
  try {
    const { status } = await fetch('/api/status', { method: 'HEAD' });
    if (status === 401) return signedOut();
  } catch {
    // Still not there.
  }
  connect();
}

function signedOut() {
  lost('');
  isSignedOut = true;
  byId('connection').replaceChildren(make('a', { href: '/login' }, 'Log in again'));
}

function lost(text) {
  if (isSignedOut) return;
  const pill = byId('connection');
  pill.dataset.state = 'lost';
  if (text !== '' && pill.textContent !== text) pill.textContent = text;
}

function heard(next) {
  view = next;
  ahead = view.at - Date.now();
  heardAt = performance.now();
  const pill = byId('connection');
  if (pill.dataset.state !== 'live') {
    pill.dataset.state = 'live';
    pill.textContent = 'Live';
  }
  // One drawing for all that came in this frame.
  requestFrame();
}

let isDue = false;
function requestFrame() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (view !== undefined) show();
  });
}

function show() {
  const rows = [...sessions.values()];
  showHead();
  showAdmission(rows);
  showAttention(rows);
  showCharts();
  table.update(rows, now());
  showWaiting();
  showEnded();
  announce(rows);
}

function showHead() {
  const { daemon, outpostId, acceptorId } = view;
  byId('outpost').replaceChildren(foreign(outpostId, { class: 'id', title: outpostId }));
  document.title = `${view.slots.used} in use${view.daemon?.ready.ok === false ? ', not ready' : ''} · dvo`;
  if (daemon === undefined) return;
  byId('about').replaceChildren(
    `dvo ${daemon.version}, provider ${daemon.provider}, acceptor `,
    foreign(acceptorId, { class: 'id' }),
    `, up ${span(now() - daemon.startedAt)}`,
  );
}

function showAdmission(rows) {
  const { admission = [], ready = { ok: true } } = view.daemon ?? {};
  const { used, max } = view.slots;
  showCensus(rows);
  const figure = byId('admission');
  const detail = byId('admission-detail');
  if (admission.length > 0) {
    figure.textContent = 'Paused';
    figure.dataset.state = 'bad';
    detail.replaceChildren(foreign(admission.map((pause) => pause.detail).join('; ')));
  } else {
    figure.textContent = used >= max ? 'Open, full' : 'Open';
    figure.dataset.state = ready.ok ? 'good' : 'bad';
    detail.textContent = openWords(max - used);
  }
}

function openWords(free) {
  if (free <= 0) return 'Every slot is taken; the next session waits for one.';
  const room = free === 1 ? 'One slot is free.' : `${free} slots are free.`;
  return view.waiting.length === 0
    ? `${room} New sessions are claimed at once.`
    : `${room} Why the waiting ones wait is told below.`;
}

function showCensus(rows) {
  const counts = Object.keys(STAGE_WORDS)
    .map((stage) => [stage, rows.filter((session) => session.stage === stage).length])
    .filter(([, count]) => count > 0);
  const parts = counts.map(([stage, count]) =>
    make(
      'li',
      { 'data-stage': stage },
      make('span', { class: 'dot' }),
      `${count} ${STAGE_WORDS[stage].toLowerCase()}`,
    ),
  );
  replaceIfNew(byId('census'), parts);
}

function showAttention(rows) {
  const items = [];
  const { ready, admission = [] } = view.daemon ?? {};
  for (const { detail, hint } of admission) items.push(item('Admission is paused', detail, hint));
  for (const reason of ready?.reasons ?? []) {
    if (!admission.some(({ detail }) => reason.includes(detail))) items.push(item('Not ready', reason));
  }
  const faults = faultsOf(rows);
  for (const fault of faults.slice(0, MOST_FAULTS)) items.push(item(fault.who, fault.text, fault.hint));
  if (faults.length > MOST_FAULTS) {
    items.push(
      make('li', { class: 'quiet' }, `and ${faults.length - MOST_FAULTS} other errors: see “Failing” below`),
    );
  }
  replaceIfNew(byId('attention-list'), items);
  byId('attention').hidden = items.length === 0;
}

/** What fails now: sessions that fail alike are one entry, the most frequent first. */
function faultsOf(rows) {
  const alike = new Map();
  for (const session of rows.filter(isCurrent)) {
    const { step, message, hint } = session.lastError;
    const text = `${step}: ${message}`;
    const fault = alike.get(text) ?? { text, hint, ids: [] };
    fault.ids.push(session.sessionId);
    alike.set(text, fault);
  }
  return [...alike.values()]
    .sort((left, right) => right.ids.length - left.ids.length)
    .map(({ text, hint, ids }) => ({
      text,
      hint,
      who: ids.length === 1 ? ids[0] : `${ids.length} sessions`,
    }));
}

function item(title, text, hint) {
  const advice = hint === undefined ? undefined : make('div', { class: 'quiet' }, `→ ${hint}`);
  return make('li', {}, make('strong', {}, foreign(title)), ' ', foreign(text), advice);
}

/** Leaves the page alone when it would look the same: a reader may be in the middle of it. */
function replaceIfNew(parent, children) {
  const next = make(parent.tagName.toLowerCase(), {}, ...children);
  if (next.innerHTML !== parent.innerHTML) parent.replaceChildren(...children);
}

function showCharts() {
  const { load = [], slots, waiting, waitingCount = waiting.length } = view;
  byId('slots').replaceChildren(
    String(slots.used),
    make('span', { class: 'quiet' }, ` of ${slots.max ?? '?'}`),
  );
  byId('queue').textContent = String(waitingCount);
  const peak = (pick) => Math.max(0, ...load.map(pick));
  const used = load.map(({ at, used: value, max: limit }) => ({ at, value, limit }));
  const queued = load.map(({ at, waiting: value }) => ({ at, value }));
  byId('slots-chart').replaceChildren(
    ...drawCurve(
      used,
      now(),
      `limit ${slots.max ?? '?'}`,
      `Slots in use over the last hour: ${slots.used} now, ${peak((one) => one.used)} at most`,
    ),
  );
  byId('queue-chart').replaceChildren(
    ...drawCurve(
      queued,
      now(),
      `peak ${peak((one) => one.waiting)}`,
      `Waiting over the last hour: ${waitingCount} now, ${peak((one) => one.waiting)} at most`,
    ),
  );
}

function showWaiting() {
  const { waiting, waitingCount = waiting.length } = view;
  byId('waiting').hidden = waiting.length === 0;
  const first = waiting.slice(0, MOST_WAITING);
  const rows = first.map(({ sessionId, createdAt, why, hint }, at) => {
    // Many wait for the same thing: what to do about it is said once.
    const isNews = hint !== undefined && hint !== first[at - 1]?.hint;
    return make(
      'tr',
      { role: 'row' },
      make('td', { role: 'cell' }, foreign(sessionId, { class: 'id' })),
      make('td', { role: 'cell', class: 'quiet' }, createdAt === undefined ? '–' : span(now() - createdAt)),
      make(
        'td',
        { role: 'cell' },
        foreign(why),
        isNews ? make('div', { class: 'quiet' }, `→ ${hint}`) : undefined,
      ),
    );
  });
  replaceIfNew(byId('waiting-rows'), rows);
  const rest = waitingCount - first.length;
  byId('waiting-rest').textContent = rest > 0 ? `and ${rest} more behind them` : '';
}

function showEnded() {
  const { ended = [] } = view;
  byId('ended').hidden = ended.length === 0;
  const items = ended.map(({ sessionId, endedAt, events }) => {
    const last = events.findLast(({ what }) => what !== 'let go');
    return make(
      'li',
      {},
      foreign(sessionId, { class: 'id' }),
      make('span', { class: 'quiet' }, `${moment(endedAt, now())}, last: ${last?.what ?? 'unknown'}`),
    );
  });
  replaceIfNew(byId('ended-list'), items);
}

let said = '';
let saidAt = -Infinity;
/** For those who hear the page: only when the counts changed, and not more than every ten seconds. */
function announce(rows) {
  const failing = rows.filter(isCurrent).length;
  const { waiting, waitingCount = waiting.length, slots } = view;
  const text = `${slots.used} slots in use, ${waitingCount} waiting, ${failing} failing`;
  if (text === said || performance.now() - saidAt < 10_000) return;
  said = text;
  saidAt = performance.now();
  byId('announce').textContent = text;
}

/** Whether one can log out: without a token, /login leads back here. */
async function offerLogout() {
  const { type } = await fetch('/login', { method: 'HEAD', redirect: 'manual' });
  byId('logout').hidden = type === 'opaqueredirect';
}

for (const [stage, words] of Object.entries(STAGE_WORDS)) {
  byId('legend').append(make('li', { 'data-stage': stage }, make('span', { class: 'dot' }), words));
}
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.tagName === 'INPUT') return;
  event.preventDefault();
  byId('filter').focus();
});
setInterval(() => {
  if (performance.now() - heardAt > SILENCE_MS) lost('Not connected: nothing heard for a while');
  else requestFrame();
}, 5_000);
connect();
void offerLogout();
