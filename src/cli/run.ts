/** `dvo run`: the daemon in the foreground. Signals, exit codes, the last words. */
import type { Config } from '../config/config.ts';
import { systemClock, systemRandom } from '../lib/clock.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import { createLogger, type Logger } from '../lib/log.ts';
import { Redactor } from '../lib/secret.ts';
import { RecentLog } from '../ops/recent-log.ts';
import { startDaemon, type Daemon } from '../orchestrator/daemon.ts';
import { readConfig } from './read-config.ts';
import { EXIT, goOnUnheard, searchPath, type ExitCode, type Terminal } from './terminal.ts';

export async function runDaemon(terminal: Terminal): Promise<ExitCode> {
  const redactor = new Redactor();
  const prepared = prepare(terminal, redactor);
  if (prepared === undefined) return EXIT.config;
  const { config, log, recentLog } = prepared;
  // The sessions matter more than the log, of which the latest lines are held in memory too.
  goOnUnheard(terminal, (error) => log.warn('log not written', { error: describeError(error) }));
  const stop = Promise.withResolvers<ExitCode>();
  // Armed before anything is opened: a signal during a slow start is not lost.
  using signals = onSignals((name) => stop.resolve(signalled(config, log, name)), log);
  using faults = onFaults((error) => {
    // The end first: telling of it may fail as well.
    stop.resolve(EXIT.failed);
    log.error('fatal error', {
      error: describeError(error),
      stack: error instanceof Error ? error.stack : undefined,
    });
  });
  try {
    const daemon = await startDaemon({
      config,
      log,
      recentLog,
      redactor,
      path: searchPath(terminal),
      clock: systemClock,
      random: systemRandom,
    });
    const code = await stop.promise;
    await stopInTime(daemon, config, log);
    return code;
  } catch (error) {
    log.error('cannot start', { error: describeError(error) });
    if (!(error instanceof DvoError)) return EXIT.failed;
    if (error.code === 'locked') return EXIT.locked;
    return error.code === 'config' ? EXIT.config : EXIT.failed;
  } finally {
    void signals;
    void faults;
  }
}

function prepare(
  terminal: Terminal,
  redactor: Redactor,
): { readonly config: Config; readonly log: Logger; readonly recentLog: RecentLog } | undefined {
  // The configuration says how to log, so trouble with a secret's file is told once there is a log.
  let log: Logger | undefined;
  try {
    const config = readConfig(terminal, redactor, (variable, why) =>
      log?.warn('secret file not usable; the last value stays in force', { variable, why }),
    );
    const recentLog = new RecentLog(systemClock);
    const write = (line: string): void => {
      recentLog.add(line);
      terminal.out(line);
    };
    log = createLogger({ ...config.log, redactor, write, color: terminal.color });
    for (const warning of config.warnings) log.warn('configuration', { warning });
    return { config, log, recentLog };
  } catch (error) {
    if (!(error instanceof DvoError && error.code === 'config')) throw error;
    terminal.err(`dvo: ${error.message}\nEvery variable is described in .env.example and in the README.\n`);
    return undefined;
  }
}

/** With `detach` sandboxes and remotes live on. */
function signalled(config: Config, log: Logger, signal: string): ExitCode {
  log.info('stopping', { signal, mode: config.shutdown.mode });
  return EXIT.ok;
}

/** The motor keeps its own limit; this one catches what it cannot. What cannot be closed does not undo the stop. */
async function stopInTime(daemon: Daemon, config: Config, log: Logger): Promise<void> {
  const done = new AbortController();
  const late = systemClock.sleep(config.shutdown.graceMs + 2_000, done.signal).then(
    () => 'late',
    () => 'in time',
  );
  const closed = daemon.stop().then(
    () => 'in time',
    (error: unknown) => {
      log.warn('not everything could be closed', { error: describeError(error) });
      return 'in time';
    },
  );
  const outcome = await Promise.race([closed, late]);
  done.abort();
  if (outcome === 'late') log.warn('not everything could be closed in time');
}

/** The first signal stops; a second one ends the process at once. */
function onSignals(stop: (name: string) => void, log: Logger): Disposable {
  let signals = 0;
  const handle = (name: NodeJS.Signals): void => {
    signals += 1;
    if (signals === 1) {
      stop(name);
      return;
    }
    log.warn('second signal: ending at once', { signal: name });
    process.exit(EXIT.failed);
  };
  process.on('SIGTERM', handle).on('SIGINT', handle);
  return { [Symbol.dispose]: () => void process.off('SIGTERM', handle).off('SIGINT', handle) };
}

/** A bug must not leave a half-dead daemon: it ends, is started again, and finds everything as the index says. */
function onFaults(fail: (error: unknown) => void): Disposable {
  let faults = 0;
  // Only the first: what tells of a fault may be what is faulty.
  const handle = (error: unknown): void => {
    faults += 1;
    if (faults === 1) fail(error);
  };
  process.on('uncaughtException', handle).on('unhandledRejection', handle);
  return {
    [Symbol.dispose]: () => void process.off('uncaughtException', handle).off('unhandledRejection', handle),
  };
}
