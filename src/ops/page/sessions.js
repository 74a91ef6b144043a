/** The table of sessions: one row each, made once and changed in place, so that focus and open details stay. */
import { drawLife, foreign, make } from './drawing.js';
import { isCurrent, moment, span, STAGE_WORDS } from './words.js';

/** Rows before "show more": a page of five hundred is long, and slow on a phone. */
const PAGE = 100;
const CHIPS = {
  all: { label: 'All', holds: () => true },
  serving: { label: 'Serving', holds: ({ stage }) => stage === 'serving' },
  starting: {
    label: 'Starting',
    holds: ({ stage }) => stage === 'claimed' || stage === 'provisioning' || stage === 'preparing',
  },
  ending: { label: 'Ending', holds: ({ stage }) => stage === 'suspending' || stage === 'terminating' },
  asleep: { label: 'Asleep', holds: ({ stage }) => stage === 'suspended' },
  failing: { label: 'Failing', holds: isCurrent },
};
const STAGE_ORDER = [
  'serving',
  'preparing',
  'provisioning',
  'claimed',
  'suspending',
  'terminating',
  'suspended',
];

const byId = (id) => document.getElementById(id);

export class SessionTable {
  #body = byId('rows');
  #rows = new Map();
  #open = new Set();
  #chip = 'all';
  #filter = '';
  #limit = PAGE;
  #sessions = [];
  #now = 0;

  constructor() {
    byId('filter').addEventListener('input', ({ target }) => {
      this.#filter = target.value.trim().toLowerCase();
      this.#limit = PAGE;
      this.#show();
    });
    byId('more').addEventListener('click', () => {
      const before = this.#limit;
      this.#limit += PAGE;
      this.#show();
      this.#body.querySelectorAll('button.open')[before]?.focus();
    });
    for (const [name, { label }] of Object.entries(CHIPS)) {
      const chip = make('button', {
        type: 'button',
        'data-chip': name,
        'aria-pressed': String(name === 'all'),
      });
      chip.append(`${label} `, make('span', { class: 'quiet' }, '0'));
      chip.addEventListener('click', () => this.#press(name));
      byId('stages').append(chip);
    }
  }

  update(sessions, now) {
    this.#sessions = [...sessions].sort(
      (left, right) =>
        STAGE_ORDER.indexOf(left.stage) - STAGE_ORDER.indexOf(right.stage) ||
        left.createdAt - right.createdAt,
    );
    this.#now = now;
    this.#show();
  }

  #press(name) {
    this.#chip = name;
    this.#limit = PAGE;
    for (const chip of byId('stages').children) {
      chip.setAttribute('aria-pressed', String(chip.dataset.chip === name));
    }
    this.#show();
  }

  #show() {
    for (const chip of byId('stages').children) {
      const { holds } = CHIPS[chip.dataset.chip];
      const count = this.#sessions.filter(holds).length;
      chip.lastChild.textContent = String(count);
      chip.classList.toggle('zero', count === 0);
    }
    const found = this.#sessions.filter((session) => this.#isWanted(session));
    const shown = found.slice(0, this.#limit);
    this.#place(shown.flatMap((session) => this.#elementsOf(session)));
    const known = new Set(this.#sessions.map(({ name }) => name));
    for (const name of this.#rows.keys()) if (!known.has(name)) this.#rows.delete(name);
    const left = found.length - shown.length;
    byId('more').hidden = left === 0;
    byId('more').textContent = `Show ${Math.min(PAGE, left)} more of ${left}`;
    const nothing = byId('nothing');
    nothing.hidden = found.length > 0;
    nothing.textContent =
      this.#sessions.length === 0
        ? 'No sessions. One appears here as soon as it is claimed from the queue.'
        : 'No session matches.';
    this.#body.parentElement.hidden = found.length === 0;
    byId('legend').hidden = found.length === 0;
  }

  #isWanted(session) {
    if (!CHIPS[this.#chip].holds(session)) return false;
    if (this.#filter === '') return true;
    const { sessionId, name, stage, sandboxId = '', lastError } = session;
    const text = `${sessionId} ${name} ${stage} ${STAGE_WORDS[stage]} ${sandboxId} ${lastError?.message ?? ''}`;
    return text.toLowerCase().includes(this.#filter);
  }

  /** Moves only what is in the wrong place: moving an element takes the focus from it. */
  #place(elements) {
    const wanted = new Set(elements);
    for (const child of Array.from(this.#body.children)) if (!wanted.has(child)) child.remove();
    let next = this.#body.firstChild;
    for (const element of elements) {
      if (element === next) next = next.nextSibling;
      else this.#body.insertBefore(element, next);
    }
  }

  #elementsOf(session) {
    const row = this.#rowOf(session);
    row.fill(session, this.#now);
    return this.#open.has(session.name) ? [row.element, row.detail(session, this.#now)] : [row.element];
  }

  #rowOf({ name }) {
    let row = this.#rows.get(name);
    if (row === undefined) {
      row = new Row(name, () => {
        if (!this.#open.delete(name)) this.#open.add(name);
        row.button.setAttribute('aria-expanded', String(this.#open.has(name)));
        this.#show();
      });
      row.button.setAttribute('aria-expanded', String(this.#open.has(name)));
      this.#rows.set(name, row);
    }
    return row;
  }
}

class Row {
  #filledWith = '';
  #filledAt = 0;
  #detailWith;
  #detailAt = 0;

  constructor(name, toggle) {
    this.id = foreign('', { class: 'id' });
    this.button = make(
      'button',
      { type: 'button', class: 'open', 'aria-controls': `detail-${name}` },
      this.id,
    );
    this.button.addEventListener('click', toggle);
    const cell = (className, label) => make('td', { role: 'cell', class: className, 'data-label': label });
    this.stage = cell('whole');
    this.life = cell('whole');
    this.sandbox = cell('', 'Sandbox');
    this.archive = cell('', 'Archive');
    this.error = cell('whole wrap');
    const first = cell('whole');
    first.append(this.button);
    const cells = [first, this.stage, this.life, this.sandbox, this.archive, this.error];
    this.element = make('tr', { role: 'row' }, ...cells);
    this.detailCell = make('td', { role: 'cell', colspan: '6', id: `detail-${name}` });
    this.detailElement = make('tr', { role: 'row', class: 'detail' }, this.detailCell);
  }

  /** Redrawn when something changed, and every ten seconds for the ages. */
  fill(session, now) {
    const content = JSON.stringify(session);
    if (content === this.#filledWith && now - this.#filledAt < 10_000) return;
    this.#filledWith = content;
    this.#filledAt = now;
    const { sessionId, stage, since, sandboxId, lifetimeEndsAt, archive, lastError, restarts } = session;
    this.id.textContent = sessionId;
    this.id.title = sessionId;
    const again = restarts > 0 ? ` ↻ ${restarts}` : '';
    this.stage.title = restarts > 0 ? `restarts of the remote: ${restarts}` : '';
    this.stage.replaceChildren(
      make(
        'span',
        { class: 'stage', 'data-stage': stage },
        make('span', { class: 'dot' }),
        STAGE_WORDS[stage],
        make('span', { class: 'quiet' }, `${span(now - since)}${again}`),
      ),
    );
    this.life.replaceChildren(drawLife(session, now));
    this.sandbox.classList.toggle('none', sandboxId === undefined);
    this.sandbox.replaceChildren(
      sandboxId === undefined ? make('span', { class: 'quiet' }, '–') : foreign(sandboxId, { class: 'id' }),
    );
    this.sandbox.title = sandboxId === undefined ? '' : `${sandboxId}${left(lifetimeEndsAt, now)}`;
    this.archive.classList.toggle('none', archive === undefined);
    this.archive.replaceChildren(
      archive === undefined ? make('span', { class: 'quiet' }, '–') : `${span(now - archive.takenAt)} ago`,
    );
    this.error.classList.toggle('none', lastError === undefined);
    this.error.replaceChildren(
      lastError === undefined
        ? make('span', { class: 'quiet' }, '–')
        : foreign(`${lastError.step}: ${lastError.message}`, {
            class: isCurrent(session) ? 'fault' : 'past',
            title: lastError.message,
          }),
    );
  }

  detail(session, now) {
    const content = JSON.stringify(session);
    if (content !== this.#detailWith || now - this.#detailAt >= 10_000) {
      this.#detailWith = content;
      this.#detailAt = now;
      const scrolled = this.detailCell.querySelector('.events')?.scrollTop ?? 0;
      this.detailCell.replaceChildren(facts(session, now), eventList(session, now));
      this.detailCell.querySelector('.events').scrollTop = scrolled;
    }
    return this.detailElement;
  }
}

function left(lifetimeEndsAt, now) {
  if (lifetimeEndsAt === undefined) return '';
  return lifetimeEndsAt > now ? `, ${span(lifetimeEndsAt - now)} left` : ', past its lifetime';
}

function facts(session, now) {
  const { name, sandboxId, sandbox, remote, lifetimeEndsAt, restarts, archive, lastError, createdAt } =
    session;
  const list = make('dl');
  const say = (term, ...what) => list.append(make('dt', {}, term), make('dd', {}, ...what));
  if (lastError !== undefined) {
    const when = isCurrent(session) ? '' : ' (has passed)';
    say(
      'Last error',
      `${span(now - lastError.at)} ago in ${lastError.step}${when}: `,
      foreign(lastError.message),
    );
    if (lastError.hint !== undefined) say('What to do', lastError.hint);
  }
  say('Name', foreign(name, { class: 'id' }));
  if (sandboxId !== undefined) {
    say('Sandbox', foreign(sandboxId, { class: 'id' }), `, ${sandbox}${left(lifetimeEndsAt, now)}`);
    say('Remote', `${remote}${restarts > 0 ? `, restarted ${restarts} times` : ''}`);
  }
  if (archive !== undefined) {
    say('Archive', foreign(archive.snapshotId, { class: 'id' }), `, ${span(now - archive.takenAt)} old`);
  }
  say('Known since', `${moment(createdAt, now)}, ${span(now - createdAt)} ago`);
  return list;
}

function eventList({ sessionId, events }, now) {
  const list = make('ol', {
    class: 'events',
    tabindex: '0',
    'aria-label': `What happened to ${sessionId}, latest first`,
  });
  for (const { at, what, detail, times, lastAt } of events.toReversed()) {
    const again = times === undefined ? '' : ` (${times} times, last ${moment(lastAt, now)})`;
    const text = make('span', {}, `${what}${again}`);
    if (detail !== undefined) text.append(' ', foreign(detail, { class: 'quiet' }));
    list.append(
      make('li', {}, make('time', { datetime: new Date(at).toISOString() }, moment(at, now)), text),
    );
  }
  return list;
}
