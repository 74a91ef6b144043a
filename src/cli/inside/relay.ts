/** Ties this process's own streams to a command in a sandbox, and gives the terminal back as it was. */
import { DvoError, systemCode } from '../../lib/errors.ts';
import type { Attached, AttachRequest, TerminalSize } from '../../sandboxes/provider.ts';
import { EXIT, type Terminal } from '../terminal.ts';
import type { Place } from './place.ts';

type Streams = Terminal['streams'];

/** As a shell says of a command that a signal ended. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/**
 * Answers the command's exit code. Raw, where a terminal is wanted: then every key is the command's own, Ctrl-C too.
 * @throws ProviderError
 */
export async function relay(
  { provider, info }: Place,
  argv: readonly string[],
  streams: Streams,
  how: 'pipes' | 'terminal',
): Promise<number> {
  const { stdin, stdout, stderr } = streams;
  const left = new AbortController();
  let signalled: number | undefined;
  using signals = onSignals((code) => {
    signalled = code;
    left.abort(new Error('interrupted'));
  });
  // Failures of a write come by its callback.
  stdout.on('error', () => undefined);
  stderr.on('error', () => undefined);
  const sinks = { stdout: sinkTo(stdout), stderr: sinkTo(stderr) };
  const request: AttachRequest = how === 'terminal' ? { argv, terminal: sizeOf(stdout) } : { argv };
  try {
    const attached = await provider.attach(info.id, request, sinks, left.signal);
    using raw = how === 'terminal' ? rawMode(streams, attached) : undefined;
    feed(stdin, attached);
    const code = await attached.exited;
    void raw;
    return code;
  } catch (error) {
    if (signalled !== undefined) return signalled;
    if (systemCode(error) === 'EPIPE') return EXIT.brokenPipe;
    throw error;
  } finally {
    void signals;
  }
}

function sizeOf(stdout: Streams['stdout']): TerminalSize {
  return { columns: stdout.columns, rows: stdout.rows };
}

function sinkTo(stream: NodeJS.WritableStream): (piece: Uint8Array) => Promise<void> {
  return async (piece) => {
    await new Promise<void>((resolve, reject) => {
      stream.write(piece, (error) => (error ? reject(error) : resolve()));
    });
  };
}

/** Until the process ends: a read that waits for a key cannot be taken back. */
function feed(stdin: Streams['stdin'], attached: Attached): void {
  const end = (): void => void attached.end();
  stdin.on('data', (piece: Buffer) => {
    stdin.pause();
    void attached.write(piece).then(() => stdin.resume());
  });
  // What cannot be read any more is over for the command too.
  stdin.once('end', end).once('error', end);
}

function rawMode({ stdin, stdout }: Streams, attached: Attached): Disposable {
  const resized = (): void => void attached.resize(sizeOf(stdout));
  stdin.setRawMode(true);
  stdout.on('resize', resized);
  return {
    [Symbol.dispose]() {
      stdout.off('resize', resized);
      stdin.setRawMode(false);
      stdin.pause();
    },
  };
}

function onSignals(stop: (code: number) => void): Disposable {
  const handlers = Object.entries(SIGNALS).map(([name, code]) => ({ name, handle: () => stop(code) }));
  for (const { name, handle } of handlers) process.on(name, handle);
  return {
    [Symbol.dispose]() {
      for (const { name, handle } of handlers) process.off(name, handle);
    },
  };
}

/** @throws DvoError `config` */
export function needsTerminal({ stdin, stdout }: Streams): void {
  if (stdin.isTTY && stdout.isTTY) return;
  throw new DvoError(
    'config',
    'a shell needs a terminal on both sides; without one: dvo exec <session> -- sh -c …',
  );
}
