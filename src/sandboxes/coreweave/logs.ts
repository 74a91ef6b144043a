/**
 * The log of a sandbox's main process, which is the session's log. A stream that breaks is resumed where it was; where
 * that cannot be, reading goes on from the time of the last line: a line twice rather than never.
 */
import type { Clock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import type { Call } from '../../lib/deadline.ts';
import { isProviderError, type LogsOptions, type SandboxState } from '../provider.ts';
import type { Connection, Task } from './connection.ts';
import { readFailure } from './failure.ts';
import type { SdkLogEntry, SdkLogOptions, SdkLogStream } from './sdk.ts';

export interface LogSource {
  readonly id: string;
  readonly connection: Connection;
  readonly clock: Clock;
  /** Undefined: the platform does not know it any more. */
  readonly state: (call: Call) => Promise<SandboxState | undefined>;
}

const TASK: Task = { what: 'read log', operation: 'logs' };
const OPEN_MS = 30_000;
/** The whole of a log that is not followed. */
const READ_MS = 120_000;
/** Between tries, and between the end of one container's log and the look for the next. */
const AGAIN_MS = 1_000;
const FAILURES_IN_A_ROW = 10;

export async function* readLog(
  source: LogSource,
  options: LogsOptions,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const { clock } = source;
  const reader = new LogReader(source, options, signal);
  let failures = 0;
  while (!signal.aborted) {
    const before = reader.lines;
    let failure: unknown;
    try {
      yield* reader.read();
    } catch (error) {
      failure = error;
    }
    if (signal.aborted) return;
    if (failure !== undefined) {
      failures = reader.lines > before ? 1 : failures + 1;
      if (!reader.canGoOn(failure) || failures > FAILURES_IN_A_ROW)
        throw source.connection.mapped(failure, TASK);
    } else if (options.follow !== true) return;
    if (options.follow === true && (await isOver(source, signal))) return;
    await clock.sleep(AGAIN_MS, signal).catch(() => undefined);
  }
}

/** Whether no further line can come. An unanswered question is no "yes". */
async function isOver(source: LogSource, signal: AbortSignal): Promise<boolean> {
  try {
    const state = await source.state({ timeoutMs: OPEN_MS, signal });
    return state === undefined || state === 'ended' || state === 'ending';
  } catch (error) {
    if (error instanceof DvoError && (error.code === 'deadline' || error.code === 'aborted')) return false;
    if (isProviderError(error, 'ambiguous') || isProviderError(error, 'exhausted')) return false;
    throw error;
  }
}

class LogReader {
  lines = 0;
  readonly #source: LogSource;
  readonly #options: LogsOptions;
  readonly #signal: AbortSignal;
  #opened = false;
  #resume: SdkLogOptions['resume'];
  #lastAt: Date | undefined;

  constructor(source: LogSource, options: LogsOptions, signal: AbortSignal) {
    this.#source = source;
    this.#options = options;
    this.#signal = signal;
  }

  /** The lines of one stream. Ends with the stream or the signal; throws what the SDK throws. */
  async *read(): AsyncGenerator<string> {
    const stream = await this.#open();
    this.#resume = undefined;
    const entries = stream[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await untilAborted(entries.next(), this.#signal);
        if (next === undefined || next.done === true) return;
        if (this.#isOld(next.value)) continue;
        this.lines += 1;
        this.#lastAt = next.value.timestamp ?? this.#lastAt;
        yield next.value.line.replace(/\r?\n$/, '');
      }
    } catch (error) {
      const { offset, sessionId } = stream;
      if (this.#options.follow === true && offset !== undefined && sessionId !== undefined) {
        this.#resume = { offset, sessionId };
      }
      throw error;
    } finally {
      await stream.close();
    }
  }

  /** Decides how to go on, if at all. */
  canGoOn(failure: unknown): boolean {
    const { transportCode, code } = readFailure(failure);
    if (transportCode === 'INVALID_RESUME_OFFSET' || this.#options.follow !== true) return false;
    if (transportCode === 'REPLAY_GAP' || transportCode === 'SESSION_NOT_FOUND') this.#resume = undefined;
    return code !== 'authentication_error' && code !== 'validation_error' && code !== 'configuration_error';
  }

  async #open(): Promise<SdkLogStream> {
    const { follow, tailLines, since } = this.#options;
    const start =
      this.#resume !== undefined
        ? { resume: this.#resume }
        : this.#lastAt !== undefined
          ? { sinceTime: this.#lastAt }
          : {
              ...(since === undefined ? {} : { sinceTime: new Date(since) }),
              ...(tailLines === undefined || this.#opened ? {} : { tailLines }),
            };
    const { id, connection } = this.#source;
    const stream = await connection.call(
      { what: 'open log', operation: 'logs' },
      { timeoutMs: OPEN_MS, signal: this.#signal },
      async (client, request) => {
        const handle = await client.fromId(id, request);
        // The SDK's limit is one of the whole stream, so a stream that is followed has none.
        const limit = follow === true ? { follow } : { timeoutMs: READ_MS };
        return await handle.logs.streamEntries({ ...start, ...limit, signal: this.#signal });
      },
    );
    this.#opened = true;
    return stream;
  }

  #isOld(entry: SdkLogEntry): boolean {
    return this.#lastAt !== undefined && entry.timestamp !== undefined && entry.timestamp < this.#lastAt;
  }
}

/** Undefined once the signal has aborted. A stream's own end on abort is not to be relied on. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  if (signal.aborted) return undefined;
  const stop = Promise.withResolvers<undefined>();
  const onAbort = (): void => stop.resolve(undefined);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, stop.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
