/**
 * The compute port: what dvo needs from a platform that runs sandboxes. Ids and plain data only; no handle
 * outlives a call. Every call is bounded by its `Call` (time limit and signal), and fails with a ProviderError
 * or with `deadline` / `aborted`. After a failure whose kind is `ambiguous`, or a deadline, the call may have
 * taken effect: look before repeating.
 */
import { DvoError, type ErrorDetails } from '../lib/errors.ts';
import type { Call } from '../lib/deadline.ts';

/**
 * starting: asked for, not usable yet (pending, creating) · running: commands can run in it · ending: on its way
 * out, never to be adopted · ended: gone for good, its volume too (completed, failed, terminated).
 */
export type SandboxState = 'starting' | 'running' | 'ending' | 'ended';

/** Absolute paths inside one sandbox. */
export interface SandboxPaths {
  /** The scratch volume: the only thing an archive holds. */
  readonly volume: string;
  /** On the container's own disk, lost when the container restarts: boot marker, logs, pid files. */
  readonly run: string;
}

export interface SandboxInfo {
  readonly id: string;
  readonly state: SandboxState;
  /** The platform's own words for why it is in this state, scrubbed. */
  readonly reason?: string;
  /** Milliseconds since the epoch. */
  readonly startedAt?: number;
  readonly paths: SandboxPaths;
}

export interface CreateRequest {
  /** Every tag of sandboxes/names.ts and the user's own, all in the create request itself. */
  readonly tags: readonly string[];
  /** Start from this archive instead of an empty volume. */
  readonly restoreFrom?: string;
  /** Hostnames that the sandbox may reach (exact, or one leftmost `*.`). Absent: the platform's own policy. */
  readonly egress?: readonly string[];
}

export interface ExecRequest {
  readonly argv: readonly string[];
  /** Written to the command's standard input, then closed. Secrets travel only here. */
  readonly stdin?: string;
}

export interface ExecResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  /** True when the platform kept only part of the output. */
  readonly truncated: boolean;
}

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

export interface AttachRequest {
  readonly argv: readonly string[];
  /** A terminal of this size is put under the command; output and error then come as one. */
  readonly terminal?: TerminalSize;
}

/** Where a command's output goes. The next piece comes when the last one was taken. */
export interface AttachSinks {
  readonly stdout: (piece: Uint8Array) => Promise<void>;
  readonly stderr: (piece: Uint8Array) => Promise<void>;
}

/** A command that a person is talking with. */
export interface Attached {
  /** To its standard input. Resolves when taken; what a command that has ended does not read is dropped. */
  write(data: Uint8Array): Promise<void>;
  /** Closes its standard input. */
  end(): Promise<void>;
  /** Without a terminal: nothing. */
  resize(size: TerminalSize): Promise<void>;
  /** The exit code, once all output was taken. @throws ProviderError; `aborted` after the signal, which ends the command */
  readonly exited: Promise<number>;
}

export type SnapshotState = 'creating' | 'ready' | 'failed' | 'deleting';

export interface SnapshotInfo {
  readonly id: string;
  readonly state: SnapshotState;
  readonly reason?: string;
  readonly sourceSandboxId?: string;
  readonly sizeBytes?: number;
  /** Milliseconds since the epoch. */
  readonly createdAt?: number;
}

export interface SandboxQuery {
  /** All of these tags must be on the sandbox. */
  readonly tags: readonly string[];
  /** `active`: starting, running and ending ones. `all`: ended ones too, as long as the platform remembers them. */
  readonly include: 'active' | 'all';
}

export interface Capabilities {
  /** Whether a sandbox's egress can be limited to a list of host names. */
  readonly egressRules: boolean;
  /** Sandboxes end by themselves this long after they start running; undefined: never. Milliseconds. */
  readonly lifetimeMs?: number;
  /** How long a create or a destroy may take to show in `list`. Milliseconds. */
  readonly listLagMs: number;
}

export interface SandboxProvider {
  readonly name: string;
  readonly capabilities: Capabilities;
  list(query: SandboxQuery, call: Call): Promise<readonly SandboxInfo[]>;
  /** @throws ProviderError `not-found` */
  get(id: string, call: Call): Promise<SandboxInfo>;
  /** Asks for a sandbox and returns as soon as its id is known; it is usually still `starting`. */
  create(request: CreateRequest, call: Call): Promise<SandboxInfo>;
  /**
   * Runs `argv` without a shell. A non-zero exit is a result. Returns when the command itself has ended, even if a
   * detached child lives on.
   */
  exec(id: string, request: ExecRequest, call: Call): Promise<ExecResult>;
  /** @throws ProviderError `not-found` (reason `file`) when there is no such file */
  readFile(id: string, path: string, call: Call): Promise<Uint8Array>;
  /** Makes missing parent directories. Replaces the file whole. */
  writeFile(id: string, path: string, content: Uint8Array, call: Call): Promise<void>;
  /** Like writeFile, from a file on the daemon's disk, for content too large for memory. */
  upload(id: string, localPath: string, path: string, call: Call): Promise<void>;
  /**
   * Archives the volume and returns the archive once it is ready.
   * @throws ProviderError `archive-failed` when it ended failed, `unsupported` when this account has no archives;
   *   after `deadline` or `ambiguous` the archive may still become ready: find it with `snapshots`.
   */
  snapshot(id: string, call: Call): Promise<SnapshotInfo>;
  /** All archives made from one sandbox, in every state. */
  snapshots(sourceSandboxId: string, call: Call): Promise<readonly SnapshotInfo[]>;
  /** @throws ProviderError `not-found` (reason `snapshot`) */
  getSnapshot(snapshotId: string, call: Call): Promise<SnapshotInfo>;
  /** Succeeds when it is already gone. */
  deleteSnapshot(snapshotId: string, call: Call): Promise<void>;
  /** Accepted is enough: the sandbox may still be `ending` on return. Succeeds when it is already gone. */
  destroy(id: string, call: Call): Promise<void>;
  /** The sandbox's log, oldest line first, without line ends. Ends with the sandbox when `follow` is on. */
  logs(id: string, options: LogsOptions, signal: AbortSignal): AsyncIterable<string>;
  /** Releases what the provider itself holds open. Sandboxes live on. */
  close(): Promise<void>;
}

/** A provider as the commands for people use it, which go into sandboxes themselves. */
export interface AttachableProvider extends SandboxProvider {
  /**
   * Runs `argv` with live streams, bounded by `signal` alone. How exactly bytes of the output are kept is the platform's:
   * `download` is for files.
   */
  attach(id: string, request: AttachRequest, sinks: AttachSinks, signal: AbortSignal): Promise<Attached>;
  /**
   * Like readFile, to a file on this machine, for content too large for memory.
   * @throws ProviderError `not-found` (reason `file`) when there is no such file
   */
  download(id: string, path: string, localPath: string, call: Call): Promise<void>;
}

export interface LogsOptions {
  readonly tailLines?: number;
  /** Only what was written since then; milliseconds since the epoch. A platform without times has it `unsupported`. */
  readonly since?: number;
  readonly follow?: boolean;
}

export type ProviderErrorKind =
  | 'not-found' // no such sandbox, archive or file
  | 'unauthenticated' // our credentials are refused
  | 'exhausted' // quota or capacity; try again later
  | 'misconfigured' // the platform refuses what the operator configured: image, size, secrets, runner
  | 'ambiguous' // unavailable, cut off, cancelled: it may have happened
  | 'unsupported' // this platform or account cannot do it at all
  | 'archive-failed' // the archive ended failed, or its content cannot be restored
  | 'invalid' // the request itself is wrong; repeating it cannot help
  | 'gone'; // the sandbox is not running any more

export class ProviderError extends DvoError {
  override readonly name = 'ProviderError';
  readonly kind: ProviderErrorKind;
  /** The platform's reason code, for logs and docs, for example `CWSANDBOX_FSS_NOT_FOUND`. */
  readonly reason: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    kind: ProviderErrorKind,
    message: string,
    details: ErrorDetails & { readonly reason?: string; readonly retryAfterMs?: number } = {},
  ) {
    super('provider', message, details);
    this.kind = kind;
    this.reason = details.reason;
    this.retryAfterMs = details.retryAfterMs;
  }
}

/** There is no such thing, or the sandbox does not run any more: nothing can be done with it. */
export function isGone(thrown: unknown): thrown is ProviderError {
  return isProviderError(thrown, 'gone') || isProviderError(thrown, 'not-found');
}

export function isProviderError(thrown: unknown, kind?: ProviderErrorKind): thrown is ProviderError {
  return thrown instanceof ProviderError && (kind === undefined || thrown.kind === kind);
}
