/** A real daemon process against the emulator, with its own STATE_DIR; everything is gone afterwards. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DaemonProcess } from '../../src/cli/demo/daemon-process.ts';
import { Facts } from '../../src/cli/demo/facts.ts';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import type { Knobs } from '../../src/emulator/settings.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { kill, processesOf } from '../../src/sandboxes/local/processes.ts';
import { MAIN } from './command.ts';
import { until } from './until.ts';

export interface StageOptions {
  readonly knobs?: Partial<Knobs>;
  readonly env?: Readonly<Record<string, string>>;
  /** Shares another stage's queue, as a second daemon on the same outpost. */
  readonly emulator?: Emulator;
}

export class Stage implements AsyncDisposable {
  readonly emulator: Emulator;
  readonly stateDir: string;
  readonly facts: Facts;
  readonly env: Readonly<Record<string, string>>;
  readonly #logFile: string;
  readonly #ownsEmulator: boolean;
  daemon: DaemonProcess;

  private constructor(emulator: Emulator, stateDir: string, options: StageOptions) {
    this.emulator = emulator;
    this.stateDir = stateDir;
    this.facts = new Facts(emulator, stateDir);
    this.#logFile = join(stateDir, 'daemon.log');
    this.#ownsEmulator = options.emulator === undefined;
    this.env = {
      PATH: process.env['PATH'] ?? '',
      STATE_DIR: stateDir,
      SANDBOX_PROVIDER: 'local',
      DEVIN_API_URL: emulator.url,
      OUTPOST_ID: emulator.outpostId,
      DEVIN_OUTPOSTS_TOKEN: emulator.knobs.token,
      DEVIN_WORKER_STATIC_BASE_URL: emulator.staticUrl,
      REMOTE_PROBE_INTERVAL_MS: '200',
      POLL_INTERVAL_MS: '500',
      OPS_PORT: '0',
      LOG_LEVEL: 'debug',
      LOG_FORMAT: 'json',
      ...options.env,
    };
    this.daemon = this.#process(this.env);
  }

  static async open(options: StageOptions = {}): Promise<Stage> {
    const emulator =
      options.emulator ??
      (await startEmulator({
        clock: systemClock,
        random: systemRandom,
        node: process.execPath,
        knobs: { suspendedVisibleMs: 300, ...options.knobs },
      }));
    return new Stage(emulator, await mkdtemp(join(tmpdir(), 'dvo-test-')), options);
  }

  /** Opens a stage and starts its daemon. */
  static async start(options: StageOptions = {}): Promise<Stage> {
    const stage = await Stage.open(options);
    await stage.start();
    return stage;
  }

  /** Starts the daemon (again), and waits until it says so. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    const before = await this.count('started');
    this.daemon = this.#process({ ...this.env, ...env });
    this.daemon.start();
    await until(async () => (await this.count('started')) > before, { what: 'the daemon starts' });
  }

  #process(env: Readonly<Record<string, string>>): DaemonProcess {
    return new DaemonProcess({ main: MAIN, env, logFile: this.#logFile });
  }

  /**
   * Enqueues a session, and waits for its remote and for the record to say so: a remote connects
   * before the daemon has written that it did. Answers the remote's pid.
   */
  async serve(sessionId: string): Promise<number> {
    this.emulator.enqueue({ sessionId });
    const pid = await this.connected(sessionId);
    await until(async () => (await this.facts.stage(sessionId)) === 'serving', {
      what: `${sessionId} is recorded as served`,
    });
    return pid;
  }

  async connected(sessionId: string): Promise<number> {
    return await until(() => this.facts.remotePid(sessionId), { what: `${sessionId} is served` });
  }

  /** Runs a shell command where the session works. */
  async run(sessionId: string, command: string): Promise<string> {
    return (await this.emulator.message(sessionId, command)).output;
  }

  async asleep(sessionId: string): Promise<void> {
    await until(async () => (await this.facts.stage(sessionId)) === 'suspended', {
      what: `${sessionId} sleeps`,
    });
  }

  /** Nothing of any session is left: no sandbox, archive, process or record. */
  async empty(): Promise<void> {
    await until(
      async () =>
        (await this.facts.sandboxes()).length === 0 &&
        (await this.facts.archives()).length === 0 &&
        (await this.facts.processes()) === 0 &&
        (await this.facts.records()) === 0,
      { what: 'nothing is left' },
    );
  }

  /** Everything that the daemon has printed. */
  async printed(): Promise<string> {
    try {
      return await readFile(this.#logFile, 'utf8');
    } catch {
      return '';
    }
  }

  /** The log lines with this message. */
  async lines(message: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const all = (await this.printed()).split('\n').filter((line) => line.startsWith('{'));
    return all.map((line) => JSON.parse(line)).filter((line) => line.msg === message);
  }

  async count(message: string): Promise<number> {
    return (await this.lines(message)).length;
  }

  /** GETs a page of the running daemon's ops server. */
  async ops(path: string): Promise<{ readonly status: number; readonly text: string }> {
    const started = (await this.lines('started')).at(-1);
    const response = await fetch(`${String(started?.['ops'])}${path}`);
    return { status: response.status, text: await response.text() };
  }

  /** The value of one series of /metrics. */
  async metric(series: string): Promise<number> {
    const { text } = await this.ops('/metrics');
    const line = text.split('\n').find((one) => one.startsWith(`${series} `));
    return Number(line?.split(' ').at(-1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.daemon.end('SIGKILL');
    const sandboxes = join(this.stateDir, 'local');
    await until(async () => {
      const left = await processesOf(sandboxes);
      await kill(left);
      return left.length === 0;
    });
    if (this.#ownsEmulator) await this.emulator.stop();
    await rm(this.stateDir, { recursive: true, force: true, maxRetries: 5 });
  }
}
