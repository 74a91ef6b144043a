/**
 * Commands that a person talks with. The SDK's output streams drop what is not taken at once, so it is taken at once and
 * waits here; with a terminal its one stream keeps every byte and waits by itself.
 */
import { DvoError } from '../../lib/errors.ts';
import type { Attached, AttachRequest, AttachSinks } from '../provider.ts';
import type { SdkProcess, SdkSandbox, SdkTerminal } from './sdk.ts';

export interface AttachParts {
  readonly signal: AbortSignal;
  /** A path in the sandbox, of this command's own. */
  readonly pidFile: string;
  /** Ends the command whose pid stands in the file: to give up a call does not. */
  readonly kill: () => Promise<void>;
  /** The SDK's errors as ours. */
  readonly mapped: (error: unknown) => DvoError;
}

const WITH_PID = 'echo $$ >"$0"; exec "$@"';

export async function attachIn(
  handle: SdkSandbox,
  { argv, terminal }: AttachRequest,
  sinks: AttachSinks,
  parts: AttachParts,
): Promise<Attached> {
  const { signal, pidFile } = parts;
  const command = ['/bin/sh', '-c', WITH_PID, pidFile, ...argv];
  if (terminal === undefined) {
    const process = await handle.commands.start(command, { stdin: true, signal });
    const exited = ended(process, processOutcome(process, sinks), parts);
    return { ...input(process), resize: async () => undefined, exited };
  }
  const { columns: cols, rows } = terminal;
  const session = await handle.shell({ command, cols, rows, signal });
  return {
    ...input(session),
    resize: (size) => forgiving(session.resize(size.columns, size.rows)),
    exited: ended(session, terminalOutcome(session, sinks), parts),
  };
}

/** A command may end, or close its input, at any time: what it does not read is dropped. */
function input({ stdin }: SdkProcess | SdkTerminal): Pick<Attached, 'write' | 'end'> {
  return {
    write: (data) => forgiving(stdin.write(data)),
    end: () => forgiving(stdin.close()),
  };
}

/** The news of an end comes by `exited`; a write that crossed it says nothing more. */
async function forgiving(work: Promise<void>): Promise<void> {
  await work.catch(() => undefined);
}

async function ended(
  running: SdkProcess | SdkTerminal,
  outcome: Promise<number>,
  { signal, kill, mapped }: AttachParts,
): Promise<number> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void =>
    stopped.reject(new DvoError('aborted', 'the command was ended', { cause: signal.reason }));
  signal.addEventListener('abort', stop, { once: true });
  outcome.catch(() => undefined);
  try {
    return await Promise.race([outcome, stopped.promise]);
  } catch (error) {
    await kill().catch(() => undefined);
    await running.cancel().catch(() => undefined);
    throw mapped(error);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

async function terminalOutcome(session: SdkTerminal, sinks: AttachSinks): Promise<number> {
  const result = session.wait();
  // From the first moment: a stream that fails with nobody waiting would end the process.
  result.catch(() => undefined);
  for await (const piece of session.output) await sinks.stdout(piece);
  return (await result).exitCode;
}

async function processOutcome(process: SdkProcess, sinks: AttachSinks): Promise<number> {
  const result = process.wait();
  result.catch(() => undefined);
  const [out, err] = await Promise.all([
    carry(process.stdout, sinks.stdout),
    carry(process.stderr, sinks.stderr),
  ]);
  const { exitCode, stdoutBytesProduced, stderrBytesProduced } = await result;
  if (out !== stdoutBytesProduced || err !== stderrBytesProduced) {
    const what = 'dvo: some of this output was lost or changed on its way; take it as a file with dvo cp\n';
    await sinks.stderr(Buffer.from(what));
  }
  return exitCode;
}

/** Answers how many bytes came. */
async function carry(stream: AsyncIterable<string>, sink: AttachSinks['stdout']): Promise<number> {
  let bytes = 0;
  let last: Promise<void> = Promise.resolve();
  for await (const text of stream) {
    const piece = Buffer.from(text);
    bytes += piece.byteLength;
    last = last.then(() => sink(piece));
    last.catch(() => undefined);
  }
  await last;
  return bytes;
}
