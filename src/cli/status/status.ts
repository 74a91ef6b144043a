/** `dvo status`: what the daemon does, once or again and again. */
import { systemClock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { failed, openBeside, type Beside } from '../beside.ts';
import { EXIT, paint, type ExitCode, type Terminal } from '../terminal.ts';
import { renderStatus, type Paint } from './render.ts';

export interface StatusFlags {
  readonly json?: true;
  readonly watch?: true;
}

const EVERY_MS = 1_000;
const TONES = { good: 32, bad: 31, dim: 2, bold: 1 } as const;
/** Home, and what was there is cleared line by line: nothing flickers. */
const [HOME, END_OF_LINE, END_OF_SCREEN] = ['\u001b[H', '\u001b[K', '\u001b[J'];
/** The terminal cuts what is wider than it: a wrapped line would push the head out. Put back at once, for whatever ends this. */
const [CUT, WRAP] = ['\u001b[?7l', '\u001b[?7h'];

export async function runStatus(flags: StatusFlags, terminal: Terminal): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    const { look } = openBeside(terminal, opened);
    if (flags.watch === true) return await watch(look, flags, terminal);
    const view = await look();
    terminal.out(
      flags.json === true ? `${JSON.stringify(view, undefined, 2)}\n` : renderStatus(view, painter(terminal)),
    );
    return EXIT.ok;
  } catch (error) {
    return failed(error, terminal);
  }
}

/**
 * Until a signal ends it; a daemon that is being restarted does not.
 * @throws DvoError `config`
 */
async function watch(look: Beside['look'], flags: StatusFlags, terminal: Terminal): Promise<never> {
  if (!terminal.interactive || flags.json === true) {
    throw new DvoError(
      'config',
      '--watch draws on a terminal; elsewhere, and with --json, ask again and again',
    );
  }
  for (;;) {
    const { rows } = terminal.streams.stdout;
    const lines = cut((await frame(look, painter(terminal))).split('\n'), rows);
    const drawn = lines.map((line) => `${line}${END_OF_LINE}\n`).join('');
    terminal.out(`${HOME}${CUT}${drawn}${WRAP}${END_OF_SCREEN}`);
    await systemClock.sleep(EVERY_MS);
  }
}

async function frame(look: Beside['look'], paintIt: Paint): Promise<string> {
  try {
    return renderStatus(await look(), paintIt).trimEnd();
  } catch (error) {
    if (!(error instanceof DvoError)) throw error;
    return error.message;
  }
}

/** What fits above the last row, which stays empty for the cursor. */
function cut(lines: readonly string[], rows: number): readonly string[] {
  if (lines.length < rows) return lines;
  return [...lines.slice(0, rows - 2), `… ${lines.length - rows + 2} more lines; dvo status has them all`];
}

function painter(terminal: Terminal): Paint {
  return (text, tone) => paint(terminal.color, TONES[tone], text);
}
