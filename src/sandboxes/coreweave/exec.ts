/** Commands: unary without input; a stream with it, because only a stream has a standard input. */
import type { Clock } from '../../lib/clock.ts';
import type { ExecRequest, ExecResult } from '../provider.ts';
import type { SdkProcess, SdkProcessResult, SdkRequest, SdkSandbox } from './sdk.ts';

/** gRPC servers commonly refuse messages above 4 MiB; small pieces also let back-pressure work. */
const PIECE_BYTES = 64 * 1024;
/** A write fails a moment before the news arrives that its command has ended. */
const END_NEWS_MS = 1_000;

export async function execIn(
  handle: SdkSandbox,
  request: ExecRequest,
  sdk: SdkRequest,
  clock: Clock,
): Promise<ExecResult> {
  if (request.stdin === undefined) return toResult(await handle.exec(request.argv, sdk));
  const process = await handle.commands.start(request.argv, { ...sdk, stdin: true });
  const ended = process.wait();
  // From the first moment: a stream that fails with nobody waiting would end the daemon.
  const settled = ended.then(
    () => true,
    () => true,
  );
  const fed = feed(process, request.stdin).catch(async (error: unknown) => {
    // A command may end, or close its input, without having read it all. Then its result counts.
    const news = new AbortController();
    const late = clock.sleep(END_NEWS_MS, news.signal).then(
      () => false,
      () => false,
    );
    const over = await Promise.race([settled, late]);
    news.abort();
    if (over) return;
    await process.cancel();
    throw error;
  });
  return toResult(await Promise.race([ended, fed.then(() => ended)]));
}

async function feed(process: SdkProcess, text: string): Promise<void> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
    await process.stdin.write(bytes.subarray(at, at + PIECE_BYTES));
  }
  await process.stdin.close();
}

/** The buffered result only: the streams of a process drop what is not read fast enough. */
function toResult(result: SdkProcessResult): ExecResult {
  return {
    exitCode: result.exitCode,
    stdout: result.stdout,
    stderr: result.stderr,
    truncated: result.stdoutTruncated || result.stderrTruncated,
  };
}
