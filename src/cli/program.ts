/**
 * The table of commands. Each command is a file of its own, loaded only when it is asked for: a daemon that starts
 * should not wait for the demo's code. This file only reads flags.
 */
import { Argument, Command, CommanderError, Option } from 'commander';
import { version } from '../lib/version.ts';
import { ORDERS, type Order } from '../session/session.ts';
import { SHELLS, type Shell } from './completion/shells.ts';
import type { ConnectFlags } from './connect/connect.ts';
import type { DemoFlags } from './demo/demo.ts';
import type { DoctorFlags } from './doctor/doctor.ts';
import type { EmulatorFlags } from './emulator.ts';
import type { LogsFlags } from './logs/logs.ts';
import type { OrderFlags } from './order/order.ts';
import type { StatusFlags } from './status/status.ts';
import { EXIT, type ExitCode, type Terminal } from './terminal.ts';

/** Runs one command line (without node and script); answers the exit code. */
export async function dvo(argv: readonly string[], terminal: Terminal): Promise<ExitCode> {
  let code: ExitCode = EXIT.ok;
  const end: End = (exit) => {
    code = exit;
  };
  const program = new Command('dvo')
    .description('Runs Devin Outposts sessions on CoreWeave sandboxes.')
    .usage('<command> [options]')
    .version(version())
    .helpCommand(false)
    .configureHelp({
      subcommandTerm: (command) => EXAMPLES.get(command) ?? command.name(),
      // A table of contents needs its lines whole; a terminal wraps them if it must.
      helpWidth: 120,
    })
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.err })
    .showSuggestionAfterError()
    .showHelpAfterError('(dvo --help shows every command, dvo <command> --help one of them)')
    .addHelpText('after', MORE)
    .enablePositionalOptions()
    .exitOverride();
  addServing(program.commandsGroup('Serving:'), terminal, end);
  addSetUp(program.commandsGroup('Setting up:'), terminal, end);
  addLooking(program.commandsGroup('Looking:'), terminal, end);
  addInside(program.commandsGroup('Going in:'), terminal, end);
  addOrders(program.commandsGroup('Intervening:'), terminal, end);
  addCompletion(program.commandsGroup('Your shell:'), terminal, end);
  try {
    await program.parseAsync(argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? EXIT.ok : EXIT.config;
  }
  return code;
}

/** Takes the exit code of the command that was run. */
type End = (code: ExitCode) => void;

const MORE = `
Each line is an example: dvo <command> --help says more. <session> is a session’s id, its dvo-name, or the beginning of
either. Settings are environment variables; .env.example has them all. Exit codes: 0 well, 1 failed, 2 settings or flags
are wrong, 3 another daemon holds STATE_DIR, 125 a command in a sandbox could not be run.
`;

/** One line per command: the table of contents, and the head of its own help. */
const EXAMPLES = new WeakMap<Command, string>();

function example(command: Command, line: string, more = ''): Command {
  EXAMPLES.set(command, line);
  return command.addHelpText('after', `\nExample:\n  ${line}\n${more === '' ? '' : `\n${more}\n`}`);
}

function addServing(program: Command, terminal: Terminal, end: End): void {
  const run = program.command('run').description('serve one outpost until stopped');
  example(run, 'dvo run', 'Configured by environment variables alone.').action(async () => {
    const { runDaemon } = await import('./run.ts');
    end(await runDaemon(terminal));
  });
  const demo = program
    .command('demo')
    .description('play the whole life of sessions on this machine, and check it')
    .addOption(
      new Option('--provider <provider>', 'where the sandboxes are; coreweave needs its credential set')
        .choices(['local', 'coreweave'])
        .default('local'),
    );
  example(demo, 'dvo demo', 'About half a minute; needs nothing but this machine.').action(
    async (flags: DemoFlags) => {
      const { runDemo } = await import('./demo/demo.ts');
      end(await runDemo(flags, terminal));
    },
  );
  const emulator = program
    .command('emulator')
    .description('Devin’s side on loopback, for trying a daemon by hand')
    .option('--port <port>', 'port of the API, 0 picks one', '0')
    .option('--control-port <port>', 'port of the control API, 0 picks one', '0');
  example(emulator, 'dvo emulator --port 7000').action(async (flags: EmulatorFlags) => {
    const { runEmulator } = await import('./emulator.ts');
    end(await runEmulator(flags, terminal));
  });
}

function addSetUp(program: Command, terminal: Terminal, end: End): void {
  const connect = program
    .command('connect')
    .description('connect an outpost in the browser, and write .env')
    .option('--name <name>', 'name of the outpost in Devin', 'coreweave')
    .addOption(
      new Option('--platform <platform>', 'what its machines run').choices(['linux']).default('linux'),
    )
    .option('--port <port>', 'where the browser comes back to; Devin knows this one', '8765')
    .option('--env-file <path>', 'the file that gets token, address and outpost', '.env')
    .option('--app-url <url>', 'where the administrator agrees', 'https://app.devin.ai');
  example(connect, 'dvo connect --name coreweave-lab', 'Then: set -a; . ./.env; set +a').action(
    async (flags: ConnectFlags) => {
      const { runConnect } = await import('./connect/connect.ts');
      end(await runConnect(flags, terminal));
    },
  );
  const doctor = program
    .command('doctor')
    .description('check everything that a daemon needs, and say how to fix it')
    .option('--deep', 'also make a sandbox, archive and restore it, and remove it again')
    .option('--smoke', 'then follow one live session through its life; says what to type into Devin')
    .option('--json', 'one JSON document instead of lines');
  example(
    doctor,
    'dvo doctor --deep',
    'Exit codes: 0 nothing failed, 1 something failed or was asked for and not run, 2 the configuration is wrong.',
  ).action(async (flags: DoctorFlags) => {
    const { runDoctor } = await import('./doctor/doctor.ts');
    end(await runDoctor(flags, terminal));
  });
}

function addLooking(program: Command, terminal: Terminal, end: End): void {
  const status = program
    .command('status')
    .description('sessions, slots and admission of the daemon on STATE_DIR')
    .option('--json', 'one JSON document')
    .option('--watch', 'draw it again every second');
  example(status, 'dvo status --watch', 'Without a daemon it shows what the index says, and says so.').action(
    async (flags: StatusFlags) => {
      const { runStatus } = await import('./status/status.ts');
      end(await runStatus(flags, terminal));
    },
  );
  const logs = program
    .command('logs')
    .description('a session’s log, also past sleep and wake; without a session: who has one')
    .argument('[session]', A_SESSION)
    .option('-f, --follow', 'go on until the session is over')
    .option('--tail <lines>', 'only the last lines')
    .option('--since <time>', 'only from then on: 10m, 2h, or a date and time')
    .option('--daemon', 'the daemon’s own log: the latest lines that it holds')
    .option('--json', 'who has a log, as one JSON document');
  example(logs, 'dvo logs devin-4711 -f --tail 100', 'The daemon’s own: dvo logs --daemon -f').action(
    async (session: string | undefined, flags: LogsFlags) => {
      const { runLogs } = await import('./logs/logs.ts');
      end(await runLogs(session, flags, terminal));
    },
  );
}

const A_SESSION = 'id, dvo-name, or the beginning of either';

function addInside(program: Command, terminal: Terminal, end: End): void {
  const exec = program
    .command('exec')
    .description('run a command in the sandbox of a session')
    .argument('<session>', A_SESSION)
    .argument('<command...>', 'the command and its words, after --')
    .passThroughOptions();
  example(
    exec,
    'dvo exec devin-4711 -- git status',
    'Input, output and exit code are the command’s own; 125: it could not be run.',
  ).action(async (session: string, command: readonly string[]) => {
    const { runExec } = await import('./inside/exec.ts');
    end(await runExec(session, command, terminal));
  });
  const shell = program
    .command('shell')
    .description('a shell in the sandbox of a session')
    .argument('<session>', A_SESSION);
  example(shell, 'dvo shell devin-4711').action(async (session: string) => {
    const { runShell } = await import('./inside/exec.ts');
    end(await runShell(session, terminal));
  });
  const copy = program
    .command('cp')
    .description('copy files and folders into the sandbox of a session, and out of it')
    .argument('<from>', 'a path here, or <session>:<path>')
    .argument('<to>', 'the other one');
  example(
    copy,
    'dvo cp devin-4711:repos/app/report.html .',
    'Paths in the sandbox begin where the session works.',
  ).action(async (from: string, to: string) => {
    const { runCopy } = await import('./inside/copy.ts');
    end(await runCopy(from, to, terminal));
  });
}

const ORDER_HELP: Readonly<Record<Order, string>> = {
  suspend: 'put a session to sleep now: stop it, archive it, destroy its sandbox',
  release: 'hand a session over: archive it and give it back to the queue',
  terminate: 'delete a session here: sandbox, workspace, archives',
};

function addOrders(program: Command, terminal: Terminal, end: End): void {
  for (const order of ORDERS) {
    const command = program
      .command(order)
      .description(ORDER_HELP[order])
      .argument('<session>', A_SESSION)
      .option('-y, --yes', 'do not ask');
    const more = 'The daemon does it; when none runs, it is done here. Interrupted, the order stays.';
    example(command, `dvo ${order} devin-4711`, more).action(async (session: string, flags: OrderFlags) => {
      const { runOrder } = await import('./order/order.ts');
      end(await runOrder(order, session, flags, terminal));
    });
  }
}

function addCompletion(program: Command, terminal: Terminal, end: End): void {
  const completion = program
    .command('completion')
    .description('the script that completes dvo’s commands, flags and sessions')
    .addArgument(new Argument('<shell>', 'which shell').choices(SHELLS));
  const setUp = [
    'bash: dvo completion bash >> ~/.bashrc',
    'zsh:  dvo completion zsh >> ~/.zshrc     (after compinit)',
    'fish: dvo completion fish > ~/.config/fish/completions/dvo.fish',
  ].join('\n');
  example(completion, 'dvo completion bash >> ~/.bashrc', setUp).action(async (shell: Shell) => {
    const { completionScript } = await import('./completion/shells.ts');
    terminal.out(completionScript(shell));
    end(EXIT.ok);
  });
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .passThroughOptions()
    .action(async (words: readonly string[]) => {
      const { runComplete } = await import('./completion/complete.ts');
      end(await runComplete(program, words, terminal));
    });
}
