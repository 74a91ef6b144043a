/** `dvo status`: what the daemon does, once or again and again. */
import { systemClock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { failed, openBeside } from '../beside.ts';
import { EXIT, paint, type ExitCode, type Terminal } from '../terminal.ts';
import { renderStatus, type Paint } from './render.ts';

export interface StatusFlags {
  readonly json?: true;
  readonly watch?: true;
}

const EVERY_MS = 1_000;
const TONES = { good: 32, bad: 31, dim: 2, bold: 1 } as const;

export async function runStatus(flags: StatusFlags, terminal: Terminal): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    const { look } = openBeside(terminal, opened);
    if (flags.watch === true && !terminal.interactive) {
      throw new DvoError(
        'config',
        '--watch needs a terminal; without one, run dvo status again when you need it',
      );
    }
    do {
      const view = await look();
      const text =
        flags.json === true
          ? `${JSON.stringify(view, undefined, 2)}\n`
          : renderStatus(view, painter(terminal));
      terminal.out(flags.watch === true ? `\u001b[H\u001b[J${text}` : text);
      if (flags.watch === true) await systemClock.sleep(EVERY_MS);
    } while (flags.watch === true);
    return EXIT.ok;
  } catch (error) {
    return failed(error, terminal);
  }
}

function painter(terminal: Terminal): Paint {
  return (text, tone) => paint(terminal.color, TONES[tone], text);
}
