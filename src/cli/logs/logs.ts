/**
 * `dvo logs`: a session's log from its sandbox, past sleep and wake. Which sandbox that is, the daemon or its index says;
 * the log itself comes from the platform.
 */
import { systemClock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import type { SessionView, StatusView } from '../../ops/view.ts';
import type { SandboxProvider } from '../../sandboxes/provider.ts';
import { failed, openBeside, openSandboxes } from '../beside.ts';
import { findSession } from '../find-session.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { amountOf, type Amount } from './amount.ts';
import { followDaemonLog, showDaemonLog } from './daemon-log.ts';

export interface LogsFlags {
  readonly follow?: true;
  readonly tail?: string;
  readonly since?: string;
  /** The daemon's own log. */
  readonly daemon?: true;
  /** Of the list of sandboxes. */
  readonly json?: true;
}

const LOOK_EVERY_MS = 1_000;

interface Sources {
  readonly provider: SandboxProvider;
  readonly look: () => Promise<StatusView>;
  readonly terminal: Terminal;
}

/** @param wanted undefined: lists the sessions that have a sandbox */
export async function runLogs(
  wanted: string | undefined,
  flags: LogsFlags,
  terminal: Terminal,
): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    const amount = amountOf(flags, systemClock.now());
    const beside = openBeside(terminal, opened);
    if (flags.daemon === true) {
      if (wanted !== undefined) throw new DvoError('config', 'either a session or --daemon, not both');
      await (flags.follow === true ? followDaemonLog : showDaemonLog)(beside, amount, terminal);
      return EXIT.ok;
    }
    if (wanted === undefined) {
      list(await beside.look(), flags, terminal);
      return EXIT.ok;
    }
    const { provider } = await openSandboxes(terminal, beside.redactor, opened);
    const sources = { provider, look: beside.look, terminal };
    await (flags.follow === true ? follow : show)(sources, wanted, amount);
    return EXIT.ok;
  } catch (error) {
    return failed(error, terminal);
  }
}

function list(view: StatusView, flags: LogsFlags, terminal: Terminal): void {
  const rows = view.sessions
    .filter(({ sandboxId }) => sandboxId !== undefined)
    .map(({ sessionId, stage, sandboxId, name }) => ({ sessionId, stage, sandboxId, name }));
  if (flags.json === true) terminal.out(`${JSON.stringify(rows, undefined, 2)}\n`);
  else if (rows.length === 0) terminal.out('No session has a sandbox.\n');
  else for (const row of rows) terminal.out(`${Object.values(row).join('  ')}\n`);
}

async function show({ provider, look, terminal }: Sources, wanted: string, amount: Amount): Promise<void> {
  const session = findSession((await look()).sessions, wanted);
  if (session?.sandboxId === undefined) throw new DvoError('state', absence(session, wanted));
  const stop = new AbortController();
  for await (const line of provider.logs(session.sandboxId, amount, stop.signal)) terminal.out(`${line}\n`);
}

/** Until the session is over. A log that has ended is not read again: the next one is another sandbox's. */
async function follow({ provider, look, terminal }: Sources, wanted: string, amount: Amount): Promise<void> {
  const stop = new AbortController();
  const say = sayOnce(terminal);
  let read: string | undefined;
  for (let seen = false; ; await systemClock.sleep(LOOK_EVERY_MS)) {
    const session = findSession((await lookAgain(look, say)).sessions, wanted);
    if (session === undefined && seen) return terminal.err('the session is over\n');
    if (session === undefined) throw new DvoError('state', absence(session, wanted));
    seen = true;
    const { sandboxId, stage } = session;
    if (sandboxId === undefined || sandboxId === read || stage === 'suspended') {
      say(`${absence(session, wanted)}: waiting`);
      continue;
    }
    say(undefined);
    const start = read === undefined ? amount : {};
    for await (const line of provider.logs(sandboxId, { ...start, follow: true }, stop.signal))
      terminal.out(`${line}\n`);
    read = sandboxId;
  }
}

/** A daemon that is being restarted may be slow to answer. */
async function lookAgain(look: Sources['look'], say: (text: string) => void): Promise<StatusView> {
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (!(error instanceof DvoError && error.code === 'deadline')) throw error;
      say(`${error.message}: asking again`);
    }
  }
}

/** To standard error, unless it is what was said last. Undefined: there is nothing to say now. */
function sayOnce(terminal: Terminal): (text: string | undefined) => void {
  let said: string | undefined;
  return (text) => {
    if (text !== undefined && text !== said) terminal.err(`${text}\n`);
    said = text;
  };
}

function absence(session: SessionView | undefined, wanted: string): string {
  if (session === undefined)
    return `no session here is called ${wanted}; dvo status lists them, and those that wait have no log yet`;
  const { stage, since, sandboxId } = session;
  if (stage === 'suspended') return `asleep since ${new Date(since).toISOString()}`;
  return sandboxId === undefined
    ? `no sandbox yet (${stage})`
    : `the log of ${sandboxId} has ended (${stage})`;
}
