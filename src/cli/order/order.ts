/**
 * `dvo suspend`, `dvo release`, `dvo terminate`: one order for one session, given to the daemon, or carried out here when
 * none runs. Shows what happens until it is done.
 */
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { createLogger } from '../../lib/log.ts';
import type { Redactor } from '../../lib/secret.ts';
import { ORDER_ANSWER, type OrderAnswer } from '../../ops/orders.ts';
import type { SessionView, StatusView } from '../../ops/view.ts';
import { startErrand } from '../../orchestrator/errand.ts';
import type { Order } from '../../session/session.ts';
import { askDaemon } from '../ask-daemon.ts';
import { failed, openBeside } from '../beside.ts';
import { findSession } from '../find-session.ts';
import { readConfig, tellOn } from '../read-config.ts';
import { EXIT, searchPath, type ExitCode, type Terminal } from '../terminal.ts';
import { confirmed } from './confirm.ts';
import { outcome, question } from './words.ts';

export interface OrderFlags {
  readonly yes?: true;
}

const LOOK_EVERY_MS = 250;

export async function runOrder(
  order: Order,
  wanted: string,
  flags: OrderFlags,
  terminal: Terminal,
): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    const { stateDir, redactor, fetch, look } = openBeside(terminal, opened);
    const view = await look();
    const session = wantedSession(view, wanted);
    if (order === 'terminate' && flags.yes === true && ![session.sessionId, session.name].includes(wanted)) {
      throw new DvoError('config', `terminate --yes takes a whole name: ${session.sessionId}`);
    }
    if (flags.yes !== true && !(await confirmed(question(session, order), terminal))) {
      terminal.err('Nothing was done.\n');
      return EXIT.failed;
    }
    const { sessionId } = session;
    if (view.daemon === undefined) return await carryOut({ order, session, redactor }, terminal);
    const told = await askDaemon(stateDir, fetch, {
      path: '/api/orders',
      body: { sessionId, order },
      answer: ORDER_ANSWER,
      also: [404, 503],
    });
    if (told?.answer === undefined) {
      throw new DvoError('state', told?.error ?? 'the daemon has just stopped: run this again');
    }
    return await follow({ order, session, answer: told.answer, look }, terminal);
  } catch (error) {
    return failed(error, terminal);
  }
}

/** @throws DvoError `state` */
function wantedSession(view: StatusView, wanted: string): SessionView {
  const session = findSession(view.sessions, wanted);
  if (session !== undefined) return session;
  const waits = view.waiting.some(({ sessionId }) => sessionId.startsWith(wanted));
  const why = waits
    ? `${wanted} waits in the queue: nothing of it is here yet, and Devin alone can end it`
    : `no session here is called ${wanted}; dvo status lists them`;
  throw new DvoError('state', why);
}

/** No daemon runs: its steps are done here, under its lock. */
async function carryOut(
  { order, session, redactor }: { order: Order; session: SessionView; redactor: Redactor },
  terminal: Terminal,
): Promise<ExitCode> {
  const config = readConfig(terminal, redactor, tellOn(terminal));
  terminal.err('No daemon runs: doing it here.\n');
  const log = createLogger({ level: 'error', format: 'pretty', redactor, write: terminal.err, color: false });
  const left = new AbortController();
  using signals = onInterrupt(() => left.abort(new Error('interrupted')));
  const path = searchPath(terminal);
  const options = { config, log, redactor, path, clock: systemClock, random: systemRandom };
  await using errand = await startErrand(options, session.sessionId, order);
  const look = () => Promise.resolve(errand.view());
  void signals;
  return await follow({ order, session, answer: errand.answer, look }, terminal, left.signal);
}

interface Followed {
  readonly order: Order;
  readonly session: SessionView;
  readonly answer: OrderAnswer;
  readonly look: () => Promise<StatusView>;
}

/** Tells the session's events until the order is done. Interrupted, the order stays. */
async function follow(
  { order, session, answer, look }: Followed,
  terminal: Terminal,
  stop?: AbortSignal,
): Promise<ExitCode> {
  const { sessionId, events } = session;
  let told = events.at(-1)?.at ?? 0;
  for (;;) {
    const since = told;
    const view = await look();
    const now = view.sessions.find((one) => one.sessionId === sessionId);
    const seen = now ?? view.ended?.find((one) => one.sessionId === sessionId);
    for (const { at, what, detail } of seen?.events ?? []) {
      if (at <= since) continue;
      told = at;
      terminal.err(`  ${what}${detail === undefined ? '' : `: ${detail}`}\n`);
    }
    if (now === undefined || answer !== 'ordered' || now.order === undefined) {
      terminal.out(`${sessionId}: ${outcome(order, now)}\n`);
      return EXIT.ok;
    }
    if (stop?.aborted === true) {
      terminal.err('Interrupted: the next daemon goes on with it.\n');
      return EXIT.failed;
    }
    await systemClock.sleep(LOOK_EVERY_MS);
  }
}

function onInterrupt(stop: () => void): Disposable {
  process.once('SIGINT', stop).once('SIGTERM', stop);
  return { [Symbol.dispose]: () => void process.off('SIGINT', stop).off('SIGTERM', stop) };
}
