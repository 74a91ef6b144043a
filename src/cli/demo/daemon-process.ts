/** A real daemon as a child process, as an operator would start it. */
import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { systemClock } from '../../lib/clock.ts';

export interface DaemonProcessOptions {
  /** The bin to run: main.ts from the sources, main.js from the image. */
  readonly main: string;
  readonly env: Readonly<Record<string, string>>;
  /** Where its output goes. */
  readonly logFile: string;
}

export class DaemonProcess {
  readonly #options: DaemonProcessOptions;
  #child: ChildProcess | undefined;

  constructor(options: DaemonProcessOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  start(): void {
    const { main, env, logFile } = this.#options;
    const child = spawn(process.execPath, [main, 'run'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const log = createWriteStream(logFile, { flags: 'a' });
    child.stdout.pipe(log, { end: false });
    child.stderr.pipe(log, { end: false });
    this.#child = child;
  }

  /** Resolves with the exit code when it has ended (null: killed, or never started). */
  async exited(): Promise<number | null> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return child?.exitCode ?? null;
    }
    return await new Promise((resolve) => child.once('exit', (code) => resolve(code)));
  }

  /** Sends the signal and waits for the end. */
  async end(signal: 'SIGTERM' | 'SIGINT' | 'SIGKILL'): Promise<number | null> {
    const exited = this.exited();
    this.#child?.kill(signal);
    return await exited;
  }
}

/** Waits until `condition` holds; false when it does not within `withinMs`. */
export async function until(condition: () => boolean | Promise<boolean>, withinMs: number): Promise<boolean> {
  const endsAt = systemClock.now() + withinMs;
  while (systemClock.now() < endsAt) {
    if (await condition()) return true;
    await systemClock.sleep(25);
  }
  return false;
}
