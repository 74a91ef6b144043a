/** `dvo emulator`: Devin's side alone, for trying a daemon against it by hand. */
import { systemClock, systemRandom } from '../lib/clock.ts';
import { startEmulator } from '../emulator/emulator.ts';
import { EXIT, type ExitCode, type Terminal } from './terminal.ts';

export interface EmulatorFlags {
  readonly port: string;
  readonly controlPort: string;
}

export async function runEmulator(flags: EmulatorFlags, terminal: Terminal): Promise<ExitCode> {
  const emulator = await startEmulator({
    clock: systemClock,
    random: systemRandom,
    port: Number(flags.port),
    controlPort: Number(flags.controlPort),
    node: process.execPath,
  });
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
