/**
 * `dvo demo`: the main job for real. A daemon process, the Outposts emulator on loopback, real processes as sandboxes,
 * real downloads and checksums. It plays the validation checklist and ticks each point from what it observes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmulator, type Emulator } from '../../emulator/emulator.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { describeError } from '../../lib/errors.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { DaemonProcess, until } from './daemon-process.ts';
import { Facts } from './facts.ts';
import { Screen } from './screen.ts';
import { playChecklist } from './checklist.ts';

const LIMIT = 2;
const LOOK_EVERY_MS = 50;

export interface DemoParts {
  readonly emulator: Emulator;
  readonly daemon: DaemonProcess;
  readonly facts: Facts;
  readonly screen: Screen;
  /** The most sandboxes that were ever seen at one time. */
  readonly most: () => number;
}

export async function runDemo(terminal: Terminal): Promise<ExitCode> {
  const screen = new Screen(terminal);
  const stateDir = await mkdtemp(join(tmpdir(), 'dvo-demo-'));
  const logFile = join(stateDir, 'daemon.log');
  const startedAt = systemClock.now();
  const emulator = await startEmulator({ clock: systemClock, random: systemRandom, node: process.execPath });
  // The daemon is the very file that runs now.
  const main = process.argv[1] ?? '';
  const daemon = new DaemonProcess({ main, env: daemonEnv(emulator, stateDir, terminal), logFile });
  const facts = new Facts(emulator, stateDir);
  const watching = new AbortController();
  let most = 0;
  const watch = watchSessions(emulator, facts, screen, watching.signal, (count) => {
    most = Math.max(most, count);
  });
  screen.say(`Devin's side: ${emulator.url}`);
  screen.say(`daemon log: ${logFile}`);
  let failures: number;
  try {
    failures = await playChecklist({ emulator, daemon, facts, screen, most: () => most });
  } catch (error) {
    screen.tick(false, `the demo broke off: ${describeError(error)}`);
    failures = 1;
  } finally {
    await daemon.end('SIGKILL');
    watching.abort();
    await watch;
    await emulator.stop();
  }
  screen.done();
  const seconds = ((systemClock.now() - startedAt) / 1_000).toFixed(1);
  if (failures > 0) {
    terminal.out(`\n${failures} of the checks failed, after ${seconds} s. The daemon's log: ${logFile}\n`);
    return EXIT.failed;
  }
  await rm(stateDir, { recursive: true, force: true });
  terminal.out(`\nAll checks hold, in ${seconds} s.\n`);
  return EXIT.ok;
}

function daemonEnv(
  emulator: Emulator,
  stateDir: string,
  terminal: Terminal,
): Readonly<Record<string, string>> {
  return {
    PATH: terminal.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    STATE_DIR: stateDir,
    SANDBOX_PROVIDER: 'local',
    MAX_CONCURRENT_SESSIONS: String(LIMIT),
    DEVIN_API_URL: emulator.url,
    OUTPOST_ID: emulator.outpostId,
    DEVIN_OUTPOSTS_TOKEN: emulator.knobs.token,
    DEVIN_WORKER_STATIC_BASE_URL: emulator.staticUrl,
    REMOTE_PROBE_INTERVAL_MS: '500',
    POLL_INTERVAL_MS: '1000',
    OPS_PORT: '0',
    LOG_LEVEL: 'debug',
    LOG_FORMAT: 'json',
  };
}

/** Shows each session's state as it changes, and counts sandboxes all the while. */
async function watchSessions(
  emulator: Emulator,
  facts: Facts,
  screen: Screen,
  signal: AbortSignal,
  onCount: (sandboxes: number) => void,
): Promise<void> {
  while (!signal.aborted) {
    onCount((await facts.sandboxes()).length);
    for (const { sessionId, queued, phase, status, remote } of emulator.state().sessions) {
      const stage = (await facts.stage(sessionId)) ?? 'no record';
      const queue = queued ? `${phase}, ${status}` : 'not queued';
      screen.show(
        sessionId,
        `${stage} · queue: ${queue}${remote === undefined ? '' : ` · remote ${remote.pid}`}`,
      );
    }
    await until(() => signal.aborted, LOOK_EVERY_MS);
  }
}
