/**
 * `dvo demo`: the main job for real. A daemon process, the Outposts emulator on loopback, real processes as sandboxes,
 * real downloads and checksums. It plays the validation checklist and ticks each point from what it observes.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Environment } from '../../config/reader.ts';
import { VARIABLES } from '../../config/variables.ts';
import { startEmulator, type Emulator } from '../../emulator/emulator.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import { Redactor } from '../../lib/secret.ts';
import { openQuietProvider } from '../quiet-provider.ts';
import { readConfig } from '../read-config.ts';
import { EXIT, goOnUnheard, searchPath, type ExitCode, type Terminal } from '../terminal.ts';
import { DaemonProcess, until } from './daemon-process.ts';
import { Facts } from './facts.ts';
import { LocalPlatform, RemotePlatform, type Platform } from './platform.ts';
import { Screen } from './screen.ts';
import { playChecklist } from './checklist.ts';

const LIMIT = 2;

export interface DemoParts {
  readonly emulator: Emulator;
  readonly daemon: DaemonProcess;
  readonly facts: Facts;
  readonly screen: Screen;
  /** The most sandboxes that were ever seen at one time. */
  readonly most: () => number;
}

export interface DemoFlags {
  readonly provider: 'local' | 'coreweave';
}

/** @throws DvoError `config`: CoreWeave is asked for, and cannot be had as the environment says */
export async function runDemo(flags: DemoFlags, terminal: Terminal): Promise<ExitCode> {
  // Ended half-way it would leave a daemon and its sandboxes.
  goOnUnheard(terminal);
  const screen = new Screen(terminal);
  const stateDir = await mkdtemp(join(tmpdir(), 'dvo-demo-'));
  const logFile = join(stateDir, 'daemon.log');
  const startedAt = systemClock.now();
  const emulator = await startEmulator({
    clock: systemClock,
    random: systemRandom,
    node: process.execPath,
    // An account that was used before may still hold sandboxes of an earlier demo.
    outpostId: `outpost_env-demo-${systemRandom.id().slice(0, 8)}`,
  });
  const env = daemonEnv(emulator, stateDir, flags, terminal);
  // The daemon is the very file that runs now.
  const daemon = new DaemonProcess({ main: process.argv[1] ?? '', env, logFile });
  screen.say(`Devin's side: ${emulator.url}`);
  screen.say(`daemon log: ${logFile}`);
  let failures: number;
  try {
    const platform = await openPlatform(env, emulator, stateDir);
    failures = await play(emulator, daemon, new Facts(emulator, stateDir, platform), screen);
  } catch (error) {
    if (error instanceof DvoError && error.code === 'config') {
      terminal.err(`dvo: ${error.message}\n`);
      await rm(stateDir, { recursive: true, force: true });
      return EXIT.config;
    }
    screen.tick(false, `the demo broke off: ${describeError(error)}`);
    failures = 1;
  } finally {
    await daemon.end('SIGKILL');
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

async function play(
  emulator: Emulator,
  daemon: DaemonProcess,
  facts: Facts,
  screen: Screen,
): Promise<number> {
  const watching = new AbortController();
  let most = 0;
  const watch = watchSessions(emulator, facts, screen, watching.signal, (count) => {
    most = Math.max(most, count);
  });
  try {
    return await playChecklist({ emulator, daemon, facts, screen, most: () => most });
  } finally {
    watching.abort();
    await watch;
  }
}

async function openPlatform(env: Environment, emulator: Emulator, stateDir: string): Promise<Platform> {
  const redactor = new Redactor();
  // The daemon reads the same, and tells of trouble in its log.
  const config = readConfig({ env, interactive: false }, redactor, () => undefined);
  if (config.provider === 'local') return new LocalPlatform(stateDir);
  const provider = await openQuietProvider({
    config,
    redactor,
    clock: systemClock,
    random: systemRandom,
    path: searchPath({ env }),
  });
  return new RemotePlatform(provider, emulator.outpostId);
}

/** With CoreWeave, what the environment says of it and of the sandboxes goes along. */
function daemonEnv(
  emulator: Emulator,
  stateDir: string,
  flags: DemoFlags,
  terminal: Terminal,
): Readonly<Record<string, string>> {
  const given = flags.provider === 'coreweave' ? terminal.env : {};
  const handedOn = Object.entries(given).flatMap(([name, value]) =>
    HANDED_ON.has(name) && value !== undefined ? [[name, value] as const] : [],
  );
  return {
    ...Object.fromEntries(handedOn),
    PATH: searchPath(terminal),
    HOME: terminal.env['HOME'] ?? stateDir,
    STATE_DIR: stateDir,
    SANDBOX_PROVIDER: flags.provider,
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

const HANDED_ON: ReadonlySet<string> = new Set(
  VARIABLES.filter(({ group, name }) => group === 'CoreWeave' || name === 'REMOTE_DELIVERY').flatMap(
    ({ name, secret }) => (secret === true ? [name, `${name}_FILE`] : [name]),
  ),
);

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
    await until(() => signal.aborted, facts.platform.lookEveryMs);
  }
}
