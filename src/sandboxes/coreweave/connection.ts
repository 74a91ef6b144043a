/**
 * Every call to the SDK goes through here: bounded in number, bounded in time although the SDK's calls can hang for
 * good, its errors mapped. Makes a new client when the old one seems dead or its credential is refused. Keeps no
 * handles: a handle remembers failures and old states.
 */
import PQueue from 'p-queue';
import type { Clock } from '../../lib/clock.ts';
import { withDeadline, type Call } from '../../lib/deadline.ts';
import { DvoError } from '../../lib/errors.ts';
import type { Logger } from '../../lib/log.ts';
import type { Redactor } from '../../lib/secret.ts';
import { isProviderError, ProviderError } from '../provider.ts';
import type { Operation } from './errors.ts';
import { toProviderError } from './failure.ts';
import type { SdkClient, SdkRequest, SdkSandbox } from './sdk.ts';
import { stateOf } from './states.ts';

/** Hears of every call; for metrics and for tests. */
export interface CoreweaveObserver {
  /** `outcome`: ok, a ProviderErrorKind, `deadline` or `aborted`. */
  call(operation: Operation, outcome: string, tookMs: number): void;
  /** A new client was made. */
  rebuilt(): void;
}

export interface ConnectionOptions {
  /** Makes a client from the credential as it is now. */
  readonly connect: () => Promise<SdkClient>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly observer: CoreweaveObserver;
}

export interface Task {
  /** In the words of a log line. */
  readonly what: string;
  readonly operation: Operation;
}

/** One HTTP/2 connection carries a hundred streams by common server settings; log streams need some of them. */
const CALLS_IN_FLIGHT = 64;
/** A quarter is left to short calls: a prepare holds its place for minutes, and probes must not wait for it. */
const LONG_CALLS_IN_FLIGHT = 48;
/** A call that may take longer than this is a long one. */
const SHORT_CALL_MS = 60_000;
/** Our own limit is the one that counts and says so; the SDK's only ends what would hang for ever behind it. */
const SDK_SLACK_MS = 2_000;
const DEADLINES_UNTIL_REBUILD = 3;
/** There is no closing a client, so they are not thrown away faster than this. */
const REBUILD_EVERY_MS = 30_000;

export class Connection {
  readonly #options: ConnectionOptions;
  readonly #queue = new PQueue({ concurrency: CALLS_IN_FLIGHT });
  /** Long calls wait here before they wait for a place among all. */
  readonly #longQueue = new PQueue({ concurrency: LONG_CALLS_IN_FLIGHT });
  #client: Promise<SdkClient> | undefined;
  #deadlines = 0;
  #rebuiltAt = Number.NEGATIVE_INFINITY;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** @throws DvoError `config` */
  async client(): Promise<SdkClient> {
    this.#client ??= this.#options.connect();
    const pending = this.#client;
    try {
      return await pending;
    } catch (error) {
      if (this.#client === pending) this.#client = undefined;
      throw error;
    }
  }

  /** @throws ProviderError; DvoError `deadline`, `aborted`, `config` */
  async call<T>(
    task: Task,
    call: Call,
    work: (client: SdkClient, request: SdkRequest) => Promise<T>,
  ): Promise<T> {
    const { clock } = this.#options;
    let sentAt = Infinity;
    const wasSent = (): boolean => clock.now() - sentAt >= call.timeoutMs / 2;
    // The limit counts from now, also while waiting for a turn; within the turn it frees the place at the limit.
    return await this.#observed(
      task,
      () =>
        withDeadline(clock, task.what, call, (signal) =>
          this.#inTurn(call, async () => {
            sentAt = clock.now();
            return await this.#attempt(task, { ...call, signal }, work);
          }),
        ),
      wasSent,
    );
  }

  /** Outside the bound, for an archive: minutes, most of them between one short question and the next. */
  async longCall<T>(
    task: Task,
    call: Call,
    work: (client: SdkClient, request: SdkRequest) => Promise<T>,
  ): Promise<T> {
    return await this.#observed(task, () => this.#attempt(task, call, work));
  }

  /** The SDK's error as one of ours. */
  mapped(thrown: unknown, task: Task): DvoError {
    return toProviderError(thrown, task.operation, task.what, this.#options.redactor);
  }

  /**
   * A fresh handle of a sandbox in which things can run.
   * @throws ProviderError `not-found`, `gone`; `ambiguous` while it is starting
   */
  async running(client: SdkClient, id: string, request: SdkRequest): Promise<SdkSandbox> {
    let handle: SdkSandbox;
    try {
      handle = await client.fromId(id, request);
    } catch (error) {
      throw this.mapped(error, { what: `look at sandbox ${id}`, operation: 'sandbox' });
    }
    const state = stateOf(handle.status);
    if (state === 'running') return handle;
    const message = `sandbox ${id} is not running (${handle.status ?? 'no status'})`;
    throw new ProviderError(state === 'starting' ? 'ambiguous' : 'gone', message);
  }

  async #inTurn<T>(call: Call, work: () => Promise<T>): Promise<T> {
    const turn = async (): Promise<T> => await this.#queue.add(work);
    return call.timeoutMs > SHORT_CALL_MS ? await this.#longQueue.add(turn) : await turn();
  }

  async #attempt<T>(
    task: Task,
    call: Call,
    work: (client: SdkClient, request: SdkRequest) => Promise<T>,
  ): Promise<T> {
    return await withDeadline(this.#options.clock, task.what, call, async (signal) => {
      const client = await this.client();
      // The SDK does not notice a signal that has aborted already.
      signal.throwIfAborted();
      return await work(client, { signal, timeoutMs: call.timeoutMs + SDK_SLACK_MS });
    });
  }

  /** @param wasSent whether a deadline says something of the platform: the call had time left when its turn came */
  async #observed<T>(task: Task, run: () => Promise<T>, wasSent: () => boolean = () => true): Promise<T> {
    const { clock, observer } = this.#options;
    const startedAt = clock.now();
    const tell = (outcome: string): void => observer.call(task.operation, outcome, clock.now() - startedAt);
    try {
      const result = await run();
      this.#deadlines = 0;
      tell('ok');
      return result;
    } catch (thrown) {
      const error = this.mapped(thrown, task);
      if (error.code !== 'deadline' || wasSent()) this.#learn(error);
      tell(error instanceof ProviderError ? error.kind : error.code);
      throw error;
    }
  }

  #learn(error: DvoError): void {
    if (error.code === 'aborted') return;
    this.#deadlines = error.code === 'deadline' ? this.#deadlines + 1 : 0;
    if (this.#deadlines >= DEADLINES_UNTIL_REBUILD) this.#rebuild('calls are not answered');
    // A credential that comes from a file may have been replaced.
    if (isProviderError(error, 'unauthenticated')) this.#rebuild('the credential was refused');
  }

  #rebuild(why: string): void {
    const { clock, log, observer } = this.#options;
    if (clock.now() - this.#rebuiltAt < REBUILD_EVERY_MS) return;
    this.#rebuiltAt = clock.now();
    this.#deadlines = 0;
    this.#client = undefined;
    log.warn('new CoreWeave client', { why });
    observer.rebuilt();
  }
}
