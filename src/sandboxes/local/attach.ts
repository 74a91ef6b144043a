/**
 * A command in a local sandbox that a person talks with. A terminal under it comes from script(1), which every Linux has;
 * without one its streams are plain pipes.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../../lib/clock.ts';
import { DvoError, systemCode, toError } from '../../lib/errors.ts';
import type { Attached, AttachRequest, AttachSinks, TerminalSize } from '../provider.ts';
import { DRAIN_MS, exitCodeOf, killGroup } from './run.ts';

export interface AttachOptions {
  readonly clock: Clock;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** A file of this command's own, where the name of its terminal is left. */
  readonly ttyFile: string;
  readonly signal: AbortSignal;
}

export function attachTo(request: AttachRequest, sinks: AttachSinks, options: AttachOptions): Attached {
  const { cwd, env, ttyFile, signal } = options;
  const { terminal } = request;
  const { argv, variables } =
    terminal === undefined ? { ...request, variables: {} } : onTerminal(request, ttyFile);
  const [file = '', ...args] = argv;
  const child = spawn(file, args, { cwd, env: { ...env, ...variables }, detached: true });
  // A command that does not read its input closes the pipe; that is its right.
  child.stdin.on('error', () => undefined);
  return {
    write: (data) => write(child, data),
    async end() {
      child.stdin.end();
    },
    async resize(size) {
      if (terminal !== undefined) await resize(size, ttyFile, env);
    },
    exited: outcome(child, sinks, options.clock, signal),
  };
}

/** The words travel as variables: nothing of them is ever read as a script. */
function onTerminal({ argv, terminal }: AttachRequest, ttyFile: string) {
  const names = argv.map((_, at) => `DVO_WORD_${at}`);
  const words = names.map((name) => `"$${name}"`).join(' ');
  const { columns, rows } = terminal ?? { columns: 80, rows: 24 };
  const script = [
    'tty >"$DVO_TTY"',
    `stty rows ${Math.trunc(rows)} cols ${Math.trunc(columns)}`,
    `set -- ${words}`,
    `unset DVO_TTY ${names.join(' ')}`,
    'exec "$@"',
  ].join('; ');
  const variables = {
    ...Object.fromEntries(argv.map((word, at) => [`DVO_WORD_${at}`, word])),
    DVO_TTY: ttyFile,
    // script(1) gives its command to this.
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
  };
  return { argv: ['script', '-qefc', script, '/dev/null'], variables };
}

async function write({ stdin }: ChildProcessWithoutNullStreams, data: Uint8Array): Promise<void> {
  if (!stdin.writable || stdin.write(data)) return;
  await new Promise<void>((resolve) => {
    stdin.once('drain', resolve).once('close', resolve);
  });
}

/** The kernel tells the command of its new size. Too early, or after the end, there is no terminal: then it does not matter. */
async function resize(
  { columns, rows }: TerminalSize,
  ttyFile: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const tty = await readFile(ttyFile, 'utf8').catch((error: unknown) => {
    if (systemCode(error) !== 'ENOENT') throw error;
    return '';
  });
  if (tty.trim() === '') return;
  const argv = ['-F', tty.trim(), 'rows', String(rows), 'cols', String(columns)];
  const child = spawn('stty', argv, { env, stdio: 'ignore' });
  await new Promise((resolve) => {
    child.once('close', resolve).once('error', resolve);
  });
}

async function outcome(
  child: ChildProcessWithoutNullStreams,
  sinks: AttachSinks,
  clock: Clock,
  signal: AbortSignal,
): Promise<number> {
  const end = (): void => killGroup(child);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted) end();
  const out = new Pump(child.stdout, sinks.stdout);
  const err = new Pump(child.stderr, sinks.stderr);
  try {
    const code = await Promise.race([exitCodeOf(child), out.failed, err.failed]);
    // A detached child may hold the pipes for ever; what is on its way is still taken.
    while (!(out.done && err.done)) {
      const before = out.taken + err.taken;
      await Promise.race([Promise.all([out.over, err.over]), clock.sleep(DRAIN_MS)]);
      if (out.taken + err.taken === before && !out.busy && !err.busy) break;
    }
    const failure = out.failure ?? err.failure;
    if (failure !== undefined) throw failure;
    if (signal.aborted) throw new DvoError('aborted', 'the command was ended', { cause: signal.reason });
    return code;
  } catch (error) {
    end();
    throw error;
  } finally {
    signal.removeEventListener('abort', end);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/** Carries one stream to its sink. */
class Pump {
  /** Pieces that the sink has taken. */
  taken = 0;
  /** The sink is at work. */
  busy = false;
  done = false;
  /** What the sink threw. */
  failure: Error | undefined;
  /** Resolves at the end of the stream, or of the pumping. */
  readonly over: Promise<void>;
  /** Rejects when the sink fails; else it never settles. */
  readonly failed: Promise<never>;

  constructor(stream: AsyncIterable<Uint8Array>, sink: (piece: Uint8Array) => Promise<void>) {
    const failed = Promise.withResolvers<never>();
    this.failed = failed.promise;
    this.failed.catch(() => undefined);
    this.over = this.#run(stream, sink).catch((error: unknown) => {
      this.failure = toError(error);
      failed.reject(this.failure);
    });
  }

  async #run(stream: AsyncIterable<Uint8Array>, sink: (piece: Uint8Array) => Promise<void>): Promise<void> {
    try {
      for await (const piece of stream) {
        this.busy = true;
        await sink(piece);
        this.busy = false;
        this.taken += 1;
      }
    } finally {
      this.busy = false;
      this.done = true;
    }
  }
}
