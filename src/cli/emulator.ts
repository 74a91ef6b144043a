/** `dvo emulator`: Devin's side alone, for trying a daemon against it by hand. */
import { systemClock, systemRandom } from '../lib/clock.ts';
import { describeError, DvoError, systemCode } from '../lib/errors.ts';
import { startEmulator, type Emulator } from '../emulator/emulator.ts';
import { failed } from './beside.ts';
import { portOf } from './port.ts';
import { EXIT, type ExitCode, type Terminal } from './terminal.ts';

export interface EmulatorFlags {
  readonly port: string;
  readonly controlPort: string;
}

export async function runEmulator(flags: EmulatorFlags, terminal: Terminal): Promise<ExitCode> {
  let emulator: Emulator;
  try {
    emulator = await start(flags);
  } catch (error) {
    return failed(error, terminal);
  }
  terminal.out(
    [
      '# Devin’s side on loopback. For a daemon in another terminal:',
      `export DEVIN_API_URL=${emulator.url}`,
      `export DEVIN_WORKER_STATIC_BASE_URL=${emulator.staticUrl}`,
      `export OUTPOST_ID=${emulator.outpostId}`,
      `export DEVIN_OUTPOSTS_TOKEN=${emulator.knobs.token}`,
      'export SANDBOX_PROVIDER=local',
      `# Drive it, for example:`,
      `#   curl -s ${emulator.controlUrl}/control/enqueue -d '{"sessionId":"devin-1"}'`,
      `#   curl -s ${emulator.controlUrl}/control/message -d '{"sessionId":"devin-1","command":"pwd"}'`,
      `#   curl -s ${emulator.controlUrl}/control/state`,
      '',
    ].join('\n'),
  );
  await new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve()).once('SIGTERM', () => resolve());
  });
  await emulator.stop();
  return EXIT.ok;
}

/** @throws DvoError `config` when a port cannot be had */
async function start(flags: EmulatorFlags): Promise<Emulator> {
  const port = portOf('--port', flags.port);
  const controlPort = portOf('--control-port', flags.controlPort);
  const parts = { clock: systemClock, random: systemRandom, node: process.execPath };
  try {
    return await startEmulator({ ...parts, port, controlPort });
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    const why = `${describeError(error)}; choose another --port or --control-port, or 0 for any`;
    throw new DvoError('config', why, { cause: error });
  }
}
