/** `dvo exec` and `dvo shell`: a command in the sandbox of a session, where the session works. */
import { failed } from '../beside.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { openPlace } from './place.ts';
import { needsTerminal, relay } from './relay.ts';

/** $0 where, $1 the session's home, $2 its user (empty: whoever we are), then the command: who runs it, as the remote is run. */
const AS_SESSION = `HOME=$1; export HOME; user=$2; shift 2
if [ -n "$user" ]; then
  group=$(id -g -- "$user") || exit ${EXIT.notRun}
  USER=$user LOGNAME=$user; export USER LOGNAME
  set -- setpriv --reuid="$user" --regid="$group" --init-groups -- "$@"
fi`;
const THERE = `${AS_SESSION}\ncd "$0" && exec "$@"`;
/** Also where that folder is not there yet. */
const NEAR = `${AS_SESSION}\ncd "$0"; exec "$@"`;
const SHELL = 'if command -v bash >/dev/null; then exec bash; else exec sh; fi';

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
  return await inside(wanted, terminal, THERE, argv, 'pipes');
}

export async function runShell(wanted: string, terminal: Terminal): Promise<ExitCode> {
  return await inside(wanted, terminal, NEAR, ['sh', '-c', SHELL], 'terminal');
}

async function inside(
  wanted: string,
  terminal: Terminal,
  script: string,
  argv: readonly string[],
  how: 'pipes' | 'terminal',
): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    if (how === 'terminal') needsTerminal(terminal.streams);
    const place = await openPlace(wanted, terminal, opened);
    const { workdir, home, user = '' } = place;
    const words = ['sh', '-c', script, workdir, home, user, ...argv];
    return await relay(place, words, terminal.streams, how);
  } catch (error) {
    failed(error, terminal);
    return EXIT.notRun;
  }
}
