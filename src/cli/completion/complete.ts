/** What could come next on a command line, a word per line: commands, flags, choices, and the sessions of the daemon. */
import type { Command } from 'commander';
import { DvoError } from '../../lib/errors.ts';
import { openBeside } from '../beside.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';

/** @param words those after `dvo`, also behind a `--`; the last one is being typed */
export async function runComplete(
  program: Command,
  words: readonly string[],
  terminal: Terminal,
): Promise<ExitCode> {
  const typed = words[0] === '--' ? words.slice(1) : words;
  const found = await candidates(program, typed, () => sessionsOf(terminal));
  const begun = typed.at(-1) ?? '';
  for (const word of found) if (word.startsWith(begun)) terminal.out(`${word}\n`);
  return EXIT.ok;
}

async function candidates(
  program: Command,
  words: readonly string[],
  sessions: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const [name, ...rest] = words;
  if (rest.length === 0) {
    const visible = program.createHelp().visibleCommands(program);
    return [...visible.map((command) => command.name()), '--help', '--version'];
  }
  const command = program.commands.find((one) => one.name() === name);
  const begun = rest.at(-1) ?? '';
  // Behind two dashes stands somebody else's command.
  if (command === undefined || rest.slice(0, -1).includes('--')) return [];
  const valued = command.options.find((option) => option.required && isNamed(option, rest.at(-2)));
  if (valued !== undefined) return valued.argChoices ?? [];
  if (begun.startsWith('-')) {
    return [
      ...command.options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long])),
      '--help',
    ];
  }
  const argument = command.registeredArguments[positionals(command, rest.slice(0, -1))];
  const what = argument?.name();
  if (what === 'session') return await sessions();
  if (what === 'from' || what === 'to') return (await sessions()).map((sessionId) => `${sessionId}:`);
  return argument?.argChoices ?? [];
}

type Option = Command['options'][number];

function isNamed({ long, short }: Option, word: string | undefined): boolean {
  return word !== undefined && (word === long || word === short);
}

/** How many arguments these words fill. */
function positionals(command: Command, words: readonly string[]): number {
  const { options } = command;
  return words.filter(
    (word, at) =>
      !word.startsWith('-') && !options.some((option) => option.required && isNamed(option, words[at - 1])),
  ).length;
}

/** None where nothing can be asked: a person who presses Tab wants no error message. */
async function sessionsOf(terminal: Terminal): Promise<readonly string[]> {
  await using opened = new AsyncDisposableStack();
  try {
    const { look } = openBeside(terminal, opened);
    const { sessions } = await look();
    return sessions.map(({ sessionId }) => sessionId);
  } catch (error) {
    if (!(error instanceof DvoError)) throw error;
    return [];
  }
}
