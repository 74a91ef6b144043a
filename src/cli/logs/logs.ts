/**
 * `dvo logs`: a session's log from its sandbox, past sleep and wake. Which sandbox that is, the daemon or its index says;
 * the log itself comes from the platform.
 */
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { Redactor } from '../../lib/secret.ts';
import type { SessionView, StatusView } from '../../ops/view.ts';
import { createHttp } from '../../outposts/http.ts';
import type { SandboxProvider } from '../../sandboxes/provider.ts';
import { findSession } from '../find-session.ts';
import { openQuietProvider } from '../quiet-provider.ts';
import { readConfig, readPlace, tellOn } from '../read-config.ts';
import { findStatus } from '../status/find-status.ts';
import { EXIT, searchPath, type ExitCode, type Terminal } from '../terminal.ts';

export interface LogsFlags {
  readonly follow?: true;
  readonly tail?: string;
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
  const redactor = new Redactor();
  const http = createHttp({ bodyTimeoutMs: 10_000 });
  await using opened = new AsyncDisposableStack();
  opened.defer(() => http.close());
  try {
    const tailLines = tailOf(flags);
    const place = readPlace(terminal, redactor);
    const look = () => findStatus(place, http.fetch, (text) => redactor.scrub(text));
    if (wanted === undefined) return list(await look(), terminal);
    const provider = await openQuietProvider({
      config: readConfig(terminal, redactor, tellOn(terminal)),
      redactor,
      clock: systemClock,
      random: systemRandom,
      path: searchPath(terminal),
    });
    opened.defer(() => provider.close());
    const sources = { provider, look, terminal };
    return flags.follow === true
      ? await follow(sources, wanted, tailLines)
      : await show(sources, wanted, tailLines);
  } catch (error) {
    if (!(error instanceof DvoError)) throw error;
    terminal.err(`dvo: ${error.message}\n`);
    return error.code === 'config' ? EXIT.config : EXIT.failed;
  }
}

function tailOf({ tail }: LogsFlags): { readonly tailLines?: number } {
  if (tail === undefined) return {};
  if (!/^\d{1,7}$/.test(tail)) throw new DvoError('config', '--tail takes a number of lines, like 100');
  return { tailLines: Number(tail) };
}

function list(view: StatusView, terminal: Terminal): ExitCode {
  const rows = view.sessions.filter(({ sandboxId }) => sandboxId !== undefined);
  if (rows.length === 0) terminal.out('No session has a sandbox.\n');
  for (const { sessionId, name, sandboxId, stage } of rows)
    terminal.out(`${sessionId}  ${stage}  ${sandboxId ?? ''}  ${name}\n`);
  return EXIT.ok;
}

async function show(
  { provider, look, terminal }: Sources,
  wanted: string,
  tail: { readonly tailLines?: number },
): Promise<ExitCode> {
  const session = findSession((await look()).sessions, wanted);
  if (session?.sandboxId === undefined) {
    terminal.err(`dvo: ${absence(session, wanted)}\n`);
    return EXIT.failed;
  }
  const stop = new AbortController();
  for await (const line of provider.logs(session.sandboxId, tail, stop.signal)) terminal.out(`${line}\n`);
  return EXIT.ok;
}

/** Until the session is over. A log that has ended is not read again: the next one is another sandbox's. */
async function follow(
  { provider, look, terminal }: Sources,
  wanted: string,
  tail: { readonly tailLines?: number },
): Promise<ExitCode> {
  const stop = new AbortController();
  let read: string | undefined;
  let told: string | undefined;
  for (let seen = false; ; await systemClock.sleep(LOOK_EVERY_MS)) {
    const session = findSession((await look()).sessions, wanted);
    if (session === undefined && seen) {
      terminal.err('the session is over\n');
      return EXIT.ok;
    }
    if (session === undefined) {
      terminal.err(`dvo: ${absence(session, wanted)}\n`);
      return EXIT.failed;
    }
    const { sandboxId, stage } = session;
    const hasLog = sandboxId !== undefined && sandboxId !== read && stage !== 'suspended';
    const waits = hasLog ? undefined : absence(session, wanted);
    if (waits !== undefined && waits !== told) terminal.err(`${waits}: waiting\n`);
    told = waits;
    if (hasLog) {
      const start = read === undefined ? tail : {};
      for await (const line of provider.logs(sandboxId, { ...start, follow: true }, stop.signal))
        terminal.out(`${line}\n`);
      read = sandboxId;
    }
    seen = true;
  }
}

function absence(session: SessionView | undefined, wanted: string): string {
  if (session === undefined)
    return `no session here is called ${wanted}; dvo status lists them, and those that wait have no log yet`;
  if (session.stage === 'suspended') return `asleep since ${new Date(session.since).toISOString()}`;
  return `no sandbox yet (${session.stage})`;
}
