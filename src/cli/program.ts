/** The table of commands. Each command is a file of its own; this one only reads flags. */
import { Command, CommanderError } from 'commander';
import { runDaemon } from './run.ts';
import { EXIT, type ExitCode, type Terminal } from './terminal.ts';

/** Runs one command line (without node and script); answers the exit code. */
export async function dvo(argv: readonly string[], terminal: Terminal): Promise<ExitCode> {
  let code: ExitCode = EXIT.ok;
  const program = new Command('dvo')
    .description('Runs Devin Outposts sessions on CoreWeave sandboxes.')
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.err })
    .exitOverride();
  program
    .command('run')
    .description('serve one outpost until stopped')
    .addHelpText(
      'after',
      '\nExample:\n  dvo run            # configured by environment variables, see .env.example\n',
    )
    .action(async () => {
      code = await runDaemon(terminal);
    });
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? EXIT.ok : EXIT.config;
  }
  return code;
}
