/** `dvo exec` and `dvo shell`: a command in the sandbox of a session, where the session works. */
import { failed } from '../beside.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { openPlace } from './place.ts';
import { needsTerminal, relay } from './relay.ts';

/** The session's home and working directory, then the command as it is. */
const THERE = 'HOME=$1; export HOME; shift; cd "$0" && exec "$@"';
const SHELL =
  'HOME=$1; export HOME; cd "$0"; if command -v bash >/dev/null; then exec bash; else exec sh; fi';

/**
 * Answers the command's own exit code.
 * @param words the command, also after a `--`
 */
export async function runExec(
  wanted: string,
  words: readonly string[],
  terminal: Terminal,
): Promise<ExitCode> {
  const argv = words[0] === '--' ? words.slice(1) : words;
  if (argv.length === 0) {
    terminal.err('dvo: no command; as in: dvo exec devin-4711 -- git status\n');
    return EXIT.notRun;
  }
  return await inside(wanted, terminal, ['sh', '-c', THERE], argv, 'pipes');
}

export async function runShell(wanted: string, terminal: Terminal): Promise<ExitCode> {
  return await inside(wanted, terminal, ['sh', '-c', SHELL], [], 'terminal');
}

async function inside(
  wanted: string,
  terminal: Terminal,
  start: readonly string[],
  argv: readonly string[],
  how: 'pipes' | 'terminal',
): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    if (how === 'terminal') needsTerminal(terminal.streams);
    const place = await openPlace(wanted, terminal, opened);
    return await relay(place, [...start, place.workdir, place.home, ...argv], terminal.streams, how);
  } catch (error) {
    failed(error, terminal);
    return EXIT.notRun;
  }
}
