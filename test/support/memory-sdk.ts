/**
 * CoreWeave's SDK and platform in memory, with their habits: a signal that has aborted already goes unnoticed; without
 * `timeoutMs` nothing ever times out; a call that is cancelled says CANCELLED; a stream reports what went wrong only in
 * `wait()`; a command is over when everybody has closed its output; deleting answers while the sandbox is still ending;
 * lists may lag; a failed create may have made something. Faults are switched on by tests.
 *
 * Sandboxes are real processes in a folder of their own. Without namespaces there is only one `/workspace` on a machine,
 * so the two paths that dvo uses are rewritten in arguments and file paths on their way in.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createReadStream, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kill, processesOf } from '../../src/sandboxes/local/processes.ts';
import { COREWEAVE_PATHS } from '../../src/sandboxes/coreweave/main-command.ts';
import type {
  SdkClient,
  SdkCreateOptions,
  SdkLogEntry,
  SdkLogOptions,
  SdkLogStream,
  SdkMetadata,
  SdkProcess,
  SdkProcessResult,
  SdkRequest,
  SdkSandbox,
  SdkSnapshot,
  SdkTerminal,
} from '../../src/sandboxes/coreweave/sdk.ts';

interface ErrorParts {
  readonly reason?: string;
  readonly transportCode?: string;
  readonly retryDelayMs?: number;
}

/** Like the SDK's errors, to those who read their members. */
export class MemorySdkError extends Error {
  readonly code: string;
  readonly reason: string | undefined;
  readonly transportCode: string | undefined;
  readonly retryDelayMs: number | undefined;

  constructor(code: string, message: string, parts: ErrorParts = {}) {
    super(message);
    this.code = code;
    this.reason = parts.reason;
    this.transportCode = parts.transportCode;
    this.retryDelayMs = parts.retryDelayMs;
  }
}

const ERRORS = {
  UNAVAILABLE: 'unavailable',
  DEADLINE_EXCEEDED: 'timeout_error',
  UNAUTHENTICATED: 'authentication_error',
  RESOURCE_EXHAUSTED: 'resource_exhausted',
  NOT_FOUND: 'not_found',
} as const;

/** The SDK's error for a gRPC status. */
export function statusError(status: string, parts: ErrorParts = {}): MemorySdkError {
  const code = Reflect.get(ERRORS, status) as string | undefined;
  return new MemorySdkError(code ?? 'transport_error', `call failed: ${status}`, {
    transportCode: status,
    ...parts,
  });
}

export interface RecordedCall {
  readonly method: string;
  /** What the request held, signals left out. */
  readonly request: unknown;
}

export interface Fault {
  readonly method: string;
  /** `after`: it takes effect, and fails all the same. */
  readonly when: 'before' | 'after';
  /** `hang`: never answers. */
  readonly error: MemorySdkError | 'hang';
  /** How often; default once. */
  readonly count?: number;
}

interface Box {
  readonly id: string;
  readonly folder: string;
  readonly tags: readonly string[];
  readonly createdAt: number;
  status: string;
  reason?: string;
  startedAt?: Date;
  main?: ChildProcess;
  log: SdkLogEntry[];
  logSession: string;
  /** Raised when the log grows or ends. */
  changed: PromiseWithResolvers<void>;
  logEnded: boolean;
}

const OUTPUT_LIMIT = 1024 * 1024;
const DONE: ReadonlySet<string> = new Set(['completed', 'failed', 'terminated', 'unspecified']);

export class MemoryPlatform {
  readonly calls: RecordedCall[] = [];
  readonly snapshots = new Map<string, SdkSnapshot & { readonly archive: string }>();
  readonly #faults: { fault: Fault; left: number }[] = [];
  readonly #boxes = new Map<string, Box>();
  readonly #root: string;
  /** A new sandbox shows in lists this much later. */
  listLagMs = 0;
  bootMs = 20;
  snapshotMs = 10;
  /** The next archive ends FAILED with this as its record's reason. */
  nextSnapshotFails: string | undefined;
  archivesSupported = true;
  templates = true;
  /** Every call is answered UNAUTHENTICATED. */
  refuses = false;
  /** Called once a create has begun to boot. */
  onCreate: () => void = () => undefined;

  private constructor(root: string) {
    this.#root = root;
  }

  static async open(): Promise<MemoryPlatform> {
    return new MemoryPlatform(await mkdtemp(join(tmpdir(), 'dvo-memory-cw-')));
  }

  async close(): Promise<void> {
    for (const box of this.#boxes.values()) box.status = 'terminated';
    await kill(await processesOf(this.#root));
    await rm(this.#root, { recursive: true, force: true, maxRetries: 5 });
  }

  fail(fault: Fault): void {
    this.#faults.push({ fault, left: fault.count ?? 1 });
  }

  /** Ids of the sandboxes that live or are coming up, with this tag. */
  alive(tag: string): readonly string[] {
    return [...this.#boxes.values()]
      .filter(({ status, tags }) => !DONE.has(status) && status !== 'terminating' && tags.includes(tag))
      .map(({ id }) => id);
  }

  /** The folder that is a sandbox's volume. */
  volume(id: string): string {
    return join(this.#box(id).folder, 'volume');
  }

  /** The platform decides: the sandbox is in this state from now on. */
  async become(id: string, status: string, reason?: string): Promise<void> {
    const box = this.#box(id);
    box.status = status;
    if (reason !== undefined) box.reason = reason;
    if (!DONE.has(status)) return;
    await kill(await processesOf(box.folder));
    this.#endLog(box);
  }

  /** All processes gone, the disk too, the volume kept, the main command started anew. */
  async restartContainer(id: string): Promise<void> {
    const box = this.#box(id);
    const { main } = box;
    delete box.main;
    await kill(await processesOf(box.folder));
    main?.removeAllListeners();
    this.#endLog(box);
    await rm(join(box.folder, 'run'), { recursive: true, force: true });
    this.#startMain(box, main?.spawnargs ?? []);
  }

  /** A log stream breaks, or its replay window is passed. */
  logFault: { readonly afterEntries: number; readonly code: string } | undefined;

  /** Another client over the same world. */
  client(): SdkClient {
    const call = async <T>(
      method: string,
      request: SdkRequest & Readonly<Record<string, unknown>>,
      effect: () => T | Promise<T>,
    ): Promise<T> => await this.#call(method, request, effect);
    const { templates } = this;
    const run = async (argv: readonly string[], options: SdkCreateOptions): Promise<SdkSandbox> =>
      await call('create', { argv, ...options }, () => this.#handle(this.#create(argv, options)));
    return {
      run,
      ...(templates
        ? {
            runFromTemplate: async (templateId: string, options: SdkCreateOptions) =>
              await call('create', { templateId, ...options }, () =>
                this.#handle(this.#create(['sleep', '600'], options)),
              ),
          }
        : {}),
      get: async (id, options) => await call('get', { id, ...options }, () => metadata(this.#box(id))),
      fromId: async (id, options) => await call('get', { id, ...options }, () => this.#handle(this.#box(id))),
      listAll: async (options) =>
        await call('list', { ...options }, () =>
          [...this.#boxes.values()]
            .filter((box) => Date.now() - box.createdAt >= this.listLagMs)
            .filter((box) => options.showTerminated === true || !DONE.has(box.status))
            .filter((box) => (options.tags ?? []).every((tag) => box.tags.includes(tag)))
            .map(metadata),
        ),
      delete: async (id, options) =>
        await call('delete', { id, ...options }, () => {
          const box = this.#boxes.get(id);
          if (box === undefined && options.missingOk !== true) throw notFound('CWSANDBOX_SANDBOX_NOT_FOUND');
          if (box !== undefined && !DONE.has(box.status)) void this.#tearDown(box);
        }),
      getSnapshot: async (id, options) =>
        await call('getSnapshot', { id, ...options }, () => this.#snapshot(id)),
      listSnapshots: async (options) =>
        await call('listSnapshots', { ...options }, () =>
          this.#supported(() =>
            [...this.snapshots.values()].filter(
              ({ sourceSandboxId }) =>
                options.sourceSandboxId === undefined || sourceSandboxId === options.sourceSandboxId,
            ),
          ),
        ),
      deleteSnapshot: async (id, options) =>
        await call('deleteSnapshot', { id, ...options }, () => {
          if (!this.snapshots.delete(id) && options.missingOk !== true)
            throw notFound('CWSANDBOX_FSS_NOT_FOUND');
        }),
    };
  }

  async #call<T>(
    method: string,
    request: SdkRequest & Readonly<Record<string, unknown>>,
    effect: () => T | Promise<T>,
  ): Promise<T> {
    const { signal, timeoutMs, ...rest } = request;
    this.calls.push({ method, request: rest });
    if (this.refuses) throw statusError('UNAUTHENTICATED');
    await this.#strike(method, 'before', request);
    const result = await limited(Promise.resolve().then(effect), timeoutMs, signal);
    await this.#strike(method, 'after', request);
    return result;
  }

  async #strike(method: string, when: 'before' | 'after', request: SdkRequest): Promise<void> {
    const armed = this.#faults.find(
      ({ fault, left }) => left > 0 && fault.method === method && fault.when === when,
    );
    if (armed === undefined) return;
    armed.left -= 1;
    if (armed.fault.error !== 'hang') throw armed.fault.error;
    await limited(new Promise<never>(() => undefined), request.timeoutMs, request.signal);
  }

  #box(id: string): Box {
    const box = this.#boxes.get(id);
    if (box === undefined) throw notFound('CWSANDBOX_SANDBOX_NOT_FOUND');
    return box;
  }

  #snapshot(id: string): SdkSnapshot {
    const snapshot = this.snapshots.get(id);
    if (snapshot === undefined) throw notFound('CWSANDBOX_FSS_NOT_FOUND');
    return snapshot;
  }

  #supported<T>(work: () => T): T {
    if (this.archivesSupported) return work();
    throw new MemorySdkError('not_implemented', 'no archives here', {
      reason: 'CWSANDBOX_FSS_NOT_SUPPORTED',
    });
  }

  #create(argv: readonly string[], options: SdkCreateOptions): Box {
    const { restoreFromSnapshotId: from } = options.fileSystemSnapshot ?? {};
    const archive = from === undefined ? undefined : this.snapshots.get(from)?.archive;
    if (from !== undefined && archive === undefined) throw notFound('CWSANDBOX_FSS_NOT_FOUND');
    const id = randomUUID();
    const box: Box = {
      id,
      folder: join(this.#root, id),
      tags: options.tags ?? [],
      createdAt: Date.now(),
      status: 'pending',
      log: [],
      logSession: randomUUID(),
      changed: Promise.withResolvers(),
      logEnded: false,
    };
    this.#boxes.set(id, box);
    void this.#boot(box, argv, archive);
    return box;
  }

  async #boot(box: Box, argv: readonly string[], archive: string | undefined): Promise<void> {
    for (const part of ['volume', 'home']) await mkdir(join(box.folder, part), { recursive: true });
    if (archive !== undefined)
      await exited(spawn('tar', ['-xpf', archive, '-C', join(box.folder, 'volume')]));
    if (box.status === 'pending') box.status = 'creating';
    const { bootMs } = this;
    this.onCreate();
    await sleep(bootMs, undefined, { ref: false });
    if (box.status !== 'creating') return;
    this.#startMain(box, argv);
    box.status = 'running';
    box.startedAt = new Date();
  }

  #startMain(box: Box, argv: readonly string[]): void {
    box.log = [];
    box.logSession = randomUUID();
    box.logEnded = false;
    const main = this.#spawn(box, argv);
    box.main = main;
    main.stdin?.end();
    let rest = '';
    const note = (chunk: Buffer): void => {
      const lines = (rest + chunk.toString()).split('\n');
      rest = lines.pop() ?? '';
      box.log.push(...lines.map((line) => ({ line: `${line}\n`, timestamp: new Date() })));
      this.#announce(box);
    };
    main.stdout?.on('data', note);
    main.stderr?.on('data', note);
    main.on('exit', (code) => {
      if (box.main === main && code === 0 && !DONE.has(box.status)) box.status = 'completed';
      if (box.main === main) this.#endLog(box);
    });
  }

  #spawn(box: Box, argv: readonly string[]): ChildProcess {
    const [file, ...args] = argv.map((word) => inside(box, word));
    return spawn(file ?? '', args, {
      cwd: '/',
      detached: true,
      env: { PATH: process.env['PATH'] ?? '', HOME: join(box.folder, 'home'), CW_SANDBOX_ID: box.id },
    });
  }

  #announce(box: Box): void {
    box.changed.resolve();
    box.changed = Promise.withResolvers();
  }

  #endLog(box: Box): void {
    box.logEnded = true;
    this.#announce(box);
  }

  async #tearDown(box: Box): Promise<void> {
    box.status = 'terminating';
    await sleep(10);
    await this.become(box.id, 'terminated');
    await rm(box.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Its status is of the moment it was made, as a real handle's is. */
  #handle(box: Box): SdkSandbox {
    const running = (): void => {
      if (box.status !== 'running') throw statusError('FAILED_PRECONDITION');
    };
    const { id } = box;
    return {
      ...metadata(box),
      exec: async (argv, options) =>
        await this.#call('exec', { id, argv, ...options }, () => {
          running();
          const child = this.#spawn(box, argv);
          child.stdin?.end();
          return collect(child);
        }),
      commands: {
        start: async (argv, options) => {
          this.calls.push({ method: 'start', request: { id, argv, stdin: options.stdin } });
          return startProcess(() => {
            running();
            return this.#spawn(box, argv);
          }, options);
        },
      },
      files: {
        read: async (path, options) =>
          await this.#call('readFile', { id, path, ...options }, async () => {
            running();
            try {
              return new Uint8Array(await readFile(inside(box, path)));
            } catch {
              throw new MemorySdkError('transport_error', 'no such file', {
                reason: 'CWSANDBOX_FILE_NOT_FOUND',
              });
            }
          }),
        write: async (path, content, options) =>
          await this.#call('writeFile', { id, path, ...options }, async () => {
            running();
            await writeFile(inside(box, path), content);
          }),
        readStream: (path, options) => {
          const { calls } = this;
          return (async function* () {
            calls.push({ method: 'readStream', request: { id, path, ...options } });
            running();
            try {
              yield* createReadStream(inside(box, path));
            } catch {
              throw new MemorySdkError('transport_error', 'no such file', {
                reason: 'CWSANDBOX_FILE_NOT_FOUND',
              });
            }
          })();
        },
        writeStream: async (path, source, options) =>
          await this.#call('writeStream', { id, path, ...options }, async () => {
            running();
            await writeFile(inside(box, path), source);
          }),
      },
      logs: { streamEntries: async (options) => this.#follow(box, options) },
      shell: async ({ command, cols, rows, ...options }) => {
        this.calls.push({ method: 'shell', request: { id, command, cols, rows } });
        return startTerminal(
          (argv) => {
            running();
            return this.#spawn(box, argv);
          },
          command,
          { cols, rows },
          options,
        );
      },
      snapshot: async (options) => await this.#call('snapshot', { id, ...options }, () => this.#archive(box)),
    };
  }

  async #archive(box: Box): Promise<SdkSnapshot> {
    this.#supported(() => undefined);
    if (box.status !== 'running') throw statusError('FAILED_PRECONDITION');
    const snapshotId = randomUUID();
    const archive = join(this.#root, `${snapshotId}.tar`);
    const record = { snapshotId, archive, sourceSandboxId: box.id, createdAt: new Date() };
    this.snapshots.set(snapshotId, { ...record, state: 'creating' });
    await sleep(this.snapshotMs);
    await exited(spawn('tar', ['-cf', archive, '-C', join(box.folder, 'volume'), '.']));
    const reason = this.nextSnapshotFails;
    this.nextSnapshotFails = undefined;
    if (reason !== undefined) {
      this.snapshots.set(snapshotId, { ...record, state: 'failed', stateReason: reason });
      throw new MemorySdkError('transport_error', `archive failed: ${reason}`, { reason });
    }
    const ready = { ...record, state: 'ready', sizeBytes: 10_240 };
    this.snapshots.set(snapshotId, ready);
    return ready;
  }

  #follow(box: Box, options: SdkLogOptions): SdkLogStream {
    const { follow, tailLines, sinceTime, resume } = options;
    this.calls.push({ method: 'logs', request: { id: box.id, follow, tailLines, sinceTime, resume } });
    let closed = false;
    let at = startOf(box, options);
    const session = box.logSession;
    const fault = this.logFault;
    this.logFault = undefined;
    let given = 0;
    const stream = {
      sessionId: session,
      offset: String(at) as string | undefined,
      close: async (): Promise<void> => {
        closed = true;
        this.#announce(box);
      },
      async *[Symbol.asyncIterator](): AsyncGenerator<SdkLogEntry> {
        if (options.resume !== undefined && options.resume.sessionId !== session)
          throw new MemorySdkError('transport_error', 'unknown session', {
            transportCode: 'SESSION_NOT_FOUND',
          });
        for (;;) {
          if (closed || session !== box.logSession) return;
          if (fault !== undefined && given >= fault.afterEntries)
            throw new MemorySdkError('transport_error', 'stream broke', { transportCode: fault.code });
          const entry = box.log[at];
          if (entry !== undefined) {
            at += 1;
            given += 1;
            stream.offset = String(at);
            yield entry;
          } else if (options.follow !== true || box.logEnded) return;
          else await box.changed.promise;
        }
      },
    };
    return stream;
  }
}

function startOf(box: Box, options: SdkLogOptions): number {
  if (options.resume !== undefined) return Number(options.resume.offset);
  const { sinceTime, tailLines } = options;
  const tail = tailLines === undefined ? 0 : Math.max(0, box.log.length - tailLines);
  if (sinceTime === undefined) return tail;
  const first = box.log.findIndex(({ timestamp }) => timestamp !== undefined && timestamp >= sinceTime);
  return Math.max(tail, first === -1 ? box.log.length : first);
}

function metadata(box: Box): SdkMetadata {
  const { id, status, reason, startedAt } = box;
  return { sandboxId: id, status, statusReason: reason, startedAt };
}

function inside(box: Box, text: string): string {
  return text
    .replaceAll(COREWEAVE_PATHS.volume, join(box.folder, 'volume'))
    .replaceAll(COREWEAVE_PATHS.run, join(box.folder, 'run'));
}

function notFound(reason: string): MemorySdkError {
  return statusError('NOT_FOUND', { reason });
}

async function exited(child: ChildProcess): Promise<void> {
  await new Promise((resolve) => child.once('close', resolve));
}

/** The work goes on when its caller is told that it was cancelled or late. */
async function limited<T>(
  work: Promise<T>,
  timeoutMs: number | undefined,
  signal: AbortSignal | undefined,
): Promise<T> {
  const over = Promise.withResolvers<never>();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => over.reject(statusError('DEADLINE_EXCEEDED')), timeoutMs);
  const onAbort = (): void => over.reject(statusError('CANCELLED'));
  // Only an abort from now on: one that has happened already goes unnoticed.
  signal?.addEventListener('abort', onAbort, { once: true });
  work.catch(() => undefined);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Ends when everybody has closed the output. */
async function collect(child: ChildProcess): Promise<SdkProcessResult> {
  const output = { stdout: kept(child.stdout), stderr: kept(child.stderr) };
  child.stdin?.on('error', () => undefined);
  const exitCode = await new Promise<number>((resolve) => {
    child.once('error', () => resolve(127));
    child.once('close', (code, killedBy) => resolve(code ?? (killedBy === 'SIGKILL' ? 137 : 143)));
  });
  return {
    exitCode,
    stdout: output.stdout.text(),
    stderr: output.stderr.text(),
    stdoutTruncated: output.stdout.size() > OUTPUT_LIMIT,
    stderrTruncated: output.stderr.size() > OUTPUT_LIMIT,
    stdoutBytesProduced: output.stdout.size(),
    stderrBytesProduced: output.stderr.size(),
  };
}

function kept(stream: NodeJS.ReadableStream | null): { text: () => string; size: () => number } {
  const chunks: Buffer[] = [];
  stream?.on('data', (chunk: Buffer) => chunks.push(chunk));
  const all = (): Buffer => Buffer.concat(chunks);
  return { text: () => all().subarray(0, OUTPUT_LIMIT).toString(), size: () => all().byteLength };
}

/** Resolves as soon as the request is sent: what is wrong shows in `wait()`, and ends the process if nobody waits. */
function startProcess(make: () => ChildProcess, options: SdkRequest): SdkProcess {
  const cancelled = new AbortController();
  const signal = AbortSignal.any([
    cancelled.signal,
    ...(options.signal === undefined ? [] : [options.signal]),
  ]);
  let child: ChildProcess | undefined;
  let over = false;
  const starting = sleep(1).then(() => {
    child = make();
    return child;
  });
  const result = limited(starting.then(collect), options.timeoutMs, signal).finally(() => {
    over = true;
  });
  const ready = async (): Promise<ChildProcess> => {
    if (over) throw new MemorySdkError('validation_error', 'the command has ended');
    return await starting;
  };
  return {
    stdout: hurried(starting.then(({ stdout }) => stdout)),
    stderr: hurried(starting.then(({ stderr }) => stderr)),
    stdin: {
      async write(data) {
        const { stdin } = await ready();
        if (stdin?.writable === true && !stdin.write(data))
          await new Promise((resolve) => stdin.once('drain', resolve));
      },
      async close() {
        (await ready()).stdin?.end();
      },
    },
    async cancel() {
      cancelled.abort();
    },
    wait: async () => await result,
  };
}

/** Decodes piece by piece, and drops what comes while 64 pieces wait. */
async function* hurried(source: Promise<NodeJS.ReadableStream | null>): AsyncGenerator<string> {
  const waiting: string[] = [];
  let over = false;
  let news = Promise.withResolvers<void>();
  const tell = (): void => {
    news.resolve();
    news = Promise.withResolvers();
  };
  const listen = source.then(
    (stream) => {
      stream?.on('data', (piece: Buffer) => {
        if (waiting.length < 64) waiting.push(piece.toString());
        tell();
      });
      stream?.on('close', () => {
        over = true;
        tell();
      });
    },
    () => {
      over = true;
      tell();
    },
  );
  await listen;
  for (;;) {
    const text = waiting.shift();
    if (text !== undefined) yield text;
    else if (over) return;
    else await news.promise;
  }
}

/** A terminal by script(1); its size is told to the kernel, as a gateway does. */
function startTerminal(
  spawnIn: (argv: readonly string[]) => ChildProcess,
  command: readonly string[],
  size: { readonly cols: number; readonly rows: number },
  options: SdkRequest,
): SdkTerminal {
  const quoted = command.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ');
  const setUp = `tty >&3; stty rows ${size.rows} cols ${size.cols}; exec ${quoted} 3>&-`;
  const folder = mkdtempSync(join(tmpdir(), 'dvo-pty-'));
  const ttyFile = join(folder, 'tty');
  const wrapped = [
    'env',
    'SHELL=/bin/sh',
    'sh',
    '-c',
    'exec script -qefc "$1" /dev/null 3>"$2"',
    'x',
    setUp,
    ttyFile,
  ];
  const process = startProcess(() => spawnIn(wrapped), options);
  const result = process.wait().finally(() => rmSync(folder, { recursive: true, force: true }));
  result.catch(() => undefined);
  const output = async function* (): AsyncGenerator<Uint8Array> {
    for await (const text of process.stdout) yield Buffer.from(text);
  };
  return {
    stdin: process.stdin,
    cancel: async () => await process.cancel(),
    output: output(),
    wait: async () => await result,
    async resize(cols, rows) {
      const tty = readFileSync(ttyFile, 'utf8').trim();
      await exited(spawn('stty', ['-F', tty, 'rows', String(rows), 'cols', String(cols)]));
    },
  };
}
