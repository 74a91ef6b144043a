/**
 * The table of commands. Each command is a file of its own, loaded only when it is asked for: a daemon that starts
 * should not wait for the demo's code. This file only reads flags.
 */
import { Command, CommanderError, Option } from 'commander';
import type { ConnectFlags } from './connect/connect.ts';
import type { DemoFlags } from './demo/demo.ts';
import type { DoctorFlags } from './doctor/doctor.ts';
import type { EmulatorFlags } from './emulator.ts';
import { ORDERS, type Order } from '../session/session.ts';
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
    .configureOutput({ writeOut: terminal.out, writeErr: terminal.err })
    .enablePositionalOptions()
    .exitOverride();
  addServing(program, terminal, end);
  addSetUp(program, terminal, end);
  addLooking(program, terminal, end);
  addInside(program, terminal, end);
  addOrders(program, terminal, end);
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

function addServing(program: Command, terminal: Terminal, end: End): void {
  program
    .command('run')
    .description('serve one outpost until stopped')
    .addHelpText(
      'after',
      '\nExample:\n  dvo run            # configured by environment variables, see .env.example\n',
    )
    .action(async () => {
      const { runDaemon } = await import('./run.ts');
      end(await runDaemon(terminal));
    });
  program
    .command('demo')
    .description('play the whole life of sessions on this machine, and check it')
    .addOption(
      new Option('--provider <provider>', 'where the sandboxes are; coreweave needs its credential set')
        .choices(['local', 'coreweave'])
        .default('local'),
    )
    .addHelpText(
      'after',
      '\nExample:\n  dvo demo           # about half a minute; needs nothing but this machine\n',
    )
    .action(async (flags: DemoFlags) => {
      const { runDemo } = await import('./demo/demo.ts');
      end(await runDemo(flags, terminal));
    });
  program
    .command('emulator')
    .description('Devin’s side on loopback, for trying a daemon by hand')
    .option('--port <port>', 'port of the API, 0 picks one', '0')
    .option('--control-port <port>', 'port of the control API, 0 picks one', '0')
    .addHelpText('after', '\nExample:\n  dvo emulator --port 7000 --control-port 7001\n')
    .action(async (flags: EmulatorFlags) => {
      const { runEmulator } = await import('./emulator.ts');
      end(await runEmulator(flags, terminal));
    });
}

function addSetUp(program: Command, terminal: Terminal, end: End): void {
  program
    .command('connect')
    .description('connect an outpost in the browser, and write .env')
    .option('--name <name>', 'name of the outpost in Devin', 'coreweave')
    .addOption(
      new Option('--platform <platform>', 'what its machines run').choices(['linux']).default('linux'),
    )
    .option('--port <port>', 'where the browser comes back to; Devin knows this one', '8765')
    .option('--env-file <path>', 'the file that gets token, address and outpost', '.env')
    .option('--app-url <url>', 'where the administrator agrees', 'https://app.devin.ai')
    .addHelpText(
      'after',
      '\nExample:\n  dvo connect --name coreweave-lab   # then: set -a; . ./.env; set +a\n',
    )
    .action(async (flags: ConnectFlags) => {
      const { runConnect } = await import('./connect/connect.ts');
      end(await runConnect(flags, terminal));
    });
  program
    .command('doctor')
    .description('check everything that a daemon needs, and say how to fix it')
    .option('--deep', 'also make a sandbox, archive and restore it, and remove it again')
    .option('--json', 'one JSON document instead of lines')
    .addHelpText(
      'after',
      '\nExample:\n  dvo doctor --deep\n\nExit codes: 0 nothing failed, 1 something failed, 2 the configuration is wrong.\n',
    )
    .action(async (flags: DoctorFlags) => {
      const { runDoctor } = await import('./doctor/doctor.ts');
      end(await runDoctor(flags, terminal));
    });
}

function addLooking(program: Command, terminal: Terminal, end: End): void {
  program
    .command('status')
    .description('sessions, slots and admission of the daemon on STATE_DIR')
    .option('--json', 'one JSON document')
    .option('--watch', 'draw it again every second')
    .addHelpText(
      'after',
      '\nExample:\n  dvo status --watch\n\nWithout a daemon it shows what the index says, and says so.\n',
    )
    .action(async (flags: StatusFlags) => {
      const { runStatus } = await import('./status/status.ts');
      end(await runStatus(flags, terminal));
    });
  program
    .command('logs')
    .description('a session’s log, also past sleep and wake; without a session: who has one')
    .argument('[session]', 'id, dvo-name, or the beginning of either')
    .option('-f, --follow', 'go on until the session is over')
    .option('--tail <lines>', 'only the last lines')
    .addHelpText('after', '\nExample:\n  dvo logs devin-4711 -f --tail 100\n')
    .action(async (session: string | undefined, flags: LogsFlags) => {
      const { runLogs } = await import('./logs/logs.ts');
      end(await runLogs(session, flags, terminal));
    });
}

function addInside(program: Command, terminal: Terminal, end: End): void {
  program
    .command('exec')
    .description('run a command in the sandbox of a session')
    .argument('<session>', 'id, dvo-name, or the beginning of either')
    .argument('<command...>', 'the command and its words, after --')
    .passThroughOptions()
    .addHelpText(
      'after',
      '\nExample:\n  dvo exec devin-4711 -- git -C repos/app status\n\nInput, output and exit code are the command’s own; 125: it could not be run.\n',
    )
    .action(async (session: string, command: readonly string[]) => {
      const { runExec } = await import('./inside/exec.ts');
      end(await runExec(session, command, terminal));
    });
  program
    .command('shell')
    .description('a shell in the sandbox of a session')
    .argument('<session>', 'id, dvo-name, or the beginning of either')
    .addHelpText('after', '\nExample:\n  dvo shell devin-4711\n')
    .action(async (session: string) => {
      const { runShell } = await import('./inside/exec.ts');
      end(await runShell(session, terminal));
    });
  program
    .command('cp')
    .description('copy files and folders into the sandbox of a session, and out of it')
    .argument('<from>', 'a path here, or <session>:<path>')
    .argument('<to>', 'the other one')
    .addHelpText(
      'after',
      '\nExample:\n  dvo cp devin-4711:repos/app/report.html .\n  dvo cp ./fixtures devin-4711:repos/app/\n\nPaths in the sandbox begin where the session works.\n',
    )
    .action(async (from: string, to: string) => {
      const { runCopy } = await import('./inside/copy.ts');
      end(await runCopy(from, to, terminal));
    });
}

const ORDER_HELP: Readonly<Record<Order, string>> = {
  suspend: 'put a session to sleep now: stop, archive, destroy its sandbox',
  release: 'hand a session over: archive it and give it back to the queue',
  terminate: 'delete a session here: sandbox, workspace, archives',
};

function addOrders(program: Command, terminal: Terminal, end: End): void {
  for (const order of ORDERS) {
    program
      .command(order)
      .description(ORDER_HELP[order])
      .argument('<session>', 'id, dvo-name, or the beginning of either')
      .option('-y, --yes', 'do not ask')
      .addHelpText(
        'after',
        `\nExample:\n  dvo ${order} devin-4711\n\nThe daemon does it; when none runs, it is done here. Interrupted, the order stays.\n`,
      )
      .action(async (session: string, flags: OrderFlags) => {
        const { runOrder } = await import('./order/order.ts');
        end(await runOrder(order, session, flags, terminal));
      });
  }
}
