/** Running one command in a local sandbox: own process group, bounded output, done when the command itself is. */
import { spawn, type ChildProcess } from 'node:child_process';
import type { Clock } from '../../lib/clock.ts';
import { systemCode } from '../../lib/errors.ts';
import type { ExecRequest, ExecResult } from '../provider.ts';

export interface RunOptions {
  readonly clock: Clock;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** As much as the CoreWeave gateway keeps of a command's output. */
const OUTPUT_LIMIT_BYTES = 1024 * 1024;
/** A detached child may hold the pipes for ever; what the command itself wrote is there by then. */
export const DRAIN_MS = 100;

export async function run(request: ExecRequest, options: RunOptions): Promise<ExecResult> {
  const [file, ...args] = request.argv;
  const { clock, cwd, env, signal } = options;
  const child = spawn(file ?? '', args, { cwd, env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
  const stdout = new Output(child.stdout);
  const stderr = new Output(child.stderr);
  const end = (): void => killGroup(child);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  // A command that does not read its input closes the pipe; that is its right.
  child.stdin.on('error', () => undefined);
  child.stdin.end(request.stdin ?? '');
  try {
    const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
    const exitCode = await exitCodeOf(child);
    const drained = new AbortController();
    await Promise.race([closed, clock.sleep(DRAIN_MS, drained.signal).catch(() => undefined)]);
    drained.abort();
    return {
      exitCode,
      stdout: stdout.text(),
      stderr: stderr.text(),
      truncated: stdout.truncated || stderr.truncated,
    };
  } finally {
    signal.removeEventListener('abort', end);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/** The command and what it has started, as far as it has not left its group. The child was spawned `detached`. */
export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}

export async function exitCodeOf(child: ChildProcess): Promise<number> {
  return await new Promise<number>((resolve) => {
    child.once('exit', (code, killedBy) => resolve(code ?? 128 + signalNumber(killedBy)));
    // Like a shell: no such command is an answer of the sandbox, not a failure of the call.
    child.once('error', () => resolve(127));
  });
}

class Output {
  readonly #chunks: Buffer[] = [];
  #size = 0;
  truncated = false;

  constructor(stream: NodeJS.ReadableStream) {
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }

  #take(chunk: Buffer): void {
    const room = OUTPUT_LIMIT_BYTES - this.#size;
    if (chunk.byteLength > room) this.truncated = true;
    if (room <= 0) return;
    const kept = chunk.subarray(0, room);
    this.#chunks.push(kept);
    this.#size += kept.byteLength;
  }
}

function signalNumber(name: NodeJS.Signals | null): number {
  return name === 'SIGTERM' ? 15 : 9;
}
