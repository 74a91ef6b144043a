/** Asks a person before something is destroyed. */
import { createInterface } from 'node:readline/promises';
import { DvoError } from '../../lib/errors.ts';
import type { Terminal } from '../terminal.ts';

/**
 * Whether the person agrees.
 * @throws DvoError `config` where nobody can be asked
 */
export async function confirmed(question: string, terminal: Terminal): Promise<boolean> {
  const { stdin, stderr } = terminal.streams;
  if (!stdin.isTTY || !stderr.isTTY) {
    throw new DvoError('config', `${question}\nNobody can be asked here: say --yes if that is what you want`);
  }
  const reader = createInterface({ input: stdin, output: stderr });
  const left = new AbortController();
  // Ctrl-C and Ctrl-D are a no.
  reader.once('close', () => left.abort());
  try {
    const said = await reader.question(`${question} [y/N] `, { signal: left.signal });
    return /^y(es)?$/i.test(said.trim());
  } catch (error) {
    if (!left.signal.aborted) throw error;
    stderr.write('\n');
    return false;
  } finally {
    reader.close();
  }
}
