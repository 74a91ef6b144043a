/**
 * The members of `@coreweave/cwsandbox` that the adapter uses, typed by hand: the package is an optional peer and may
 * be absent when dvo is built and tested. A test compares these with the real package's types when it is there.
 */

export interface SdkRequest {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

export interface SdkMetadata {
  readonly sandboxId: string;
  /** Kept as text: newer versions may know more statuses. */
  readonly status?: string | undefined;
  readonly statusReason?: string | undefined;
  readonly startedAt?: Date | undefined;
}

export interface SdkCreateOptions extends SdkRequest {
  /** With a template only: `run` has it as an argument. */
  readonly command?: readonly string[];
  readonly containerImage?: string;
  readonly resources?: { readonly cpu?: string; readonly memory?: string };
  readonly fileSystemSnapshot?: {
    readonly mountPath: string;
    readonly size?: string;
    readonly restoreFromSnapshotId?: string;
  };
  readonly maxLifetimeSeconds?: number;
  readonly tags?: readonly string[];
  readonly runnerIds?: readonly string[];
  readonly secrets?: readonly {
    readonly store: string;
    readonly name: string;
    readonly field?: string;
    readonly envVar?: string;
  }[];
  /** `egress` from version 0.4 on. */
  readonly network?: {
    readonly denyEgress?: boolean;
    readonly egress?: readonly { readonly dnsName: string }[];
  };
  readonly waitUntilRunning?: boolean;
}

export interface SdkProcessResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly stdoutTruncated: boolean;
  readonly stderrTruncated: boolean;
  readonly stdoutBytesProduced: number;
  readonly stderrBytesProduced: number;
}

export interface SdkProcess {
  /** Decoded piece by piece; what is not taken fast enough is dropped. */
  readonly stdout: AsyncIterable<string>;
  readonly stderr: AsyncIterable<string>;
  readonly stdin: {
    write(data: Uint8Array): Promise<void>;
    close(): Promise<void>;
  };
  cancel(): Promise<void>;
  wait(): Promise<SdkProcessResult>;
}

export interface SdkTerminal {
  readonly output: AsyncIterable<Uint8Array>;
  readonly stdin: SdkProcess['stdin'];
  resize(cols: number, rows: number): Promise<void>;
  cancel(): Promise<void>;
  wait(): Promise<{ readonly exitCode: number }>;
}

export interface SdkLogEntry {
  readonly line: string;
  readonly timestamp?: Date | undefined;
}

export interface SdkLogStream extends AsyncIterable<SdkLogEntry> {
  readonly offset: string | undefined;
  readonly sessionId: string | undefined;
  close(): Promise<void>;
}

export interface SdkLogOptions extends SdkRequest {
  readonly follow?: boolean;
  readonly tailLines?: number;
  readonly sinceTime?: Date;
  readonly resume?: { readonly offset: string; readonly sessionId: string };
}

export interface SdkSnapshot {
  readonly snapshotId: string;
  readonly state: string;
  readonly stateReason?: string | undefined;
  readonly sourceSandboxId?: string | undefined;
  readonly sizeBytes?: number | undefined;
  readonly createdAt?: Date | undefined;
}

export interface SdkSandbox extends SdkMetadata {
  readonly commands: {
    start(argv: readonly string[], options: SdkRequest & { readonly stdin: true }): Promise<SdkProcess>;
  };
  readonly files: {
    read(path: string, options: SdkRequest): Promise<Uint8Array>;
    write(path: string, content: Uint8Array, options: SdkRequest): Promise<void>;
    writeStream(path: string, source: AsyncIterable<Uint8Array>, options: SdkRequest): Promise<void>;
    readStream(path: string, options: SdkRequest): AsyncIterable<Uint8Array>;
  };
  readonly logs: { streamEntries(options: SdkLogOptions): Promise<SdkLogStream> };
  exec(argv: readonly string[], options: SdkRequest): Promise<SdkProcessResult>;
  shell(
    options: SdkRequest & {
      readonly command: readonly string[];
      readonly cols: number;
      readonly rows: number;
    },
  ): Promise<SdkTerminal>;
  snapshot(options: SdkRequest): Promise<SdkSnapshot>;
}

export interface SdkClient {
  run(argv: readonly string[], options: SdkCreateOptions): Promise<SdkSandbox>;
  get(sandboxId: string, options: SdkRequest): Promise<SdkMetadata>;
  fromId(sandboxId: string, options: SdkRequest): Promise<SdkSandbox>;
  listAll(
    options: SdkRequest & { readonly tags?: readonly string[]; readonly showTerminated?: boolean },
  ): Promise<readonly SdkMetadata[]>;
  delete(sandboxId: string, options: SdkRequest & { readonly missingOk?: boolean }): Promise<void>;
  getSnapshot(snapshotId: string, options: SdkRequest): Promise<SdkSnapshot>;
  listSnapshots(options: SdkRequest & { readonly sourceSandboxId?: string }): Promise<readonly SdkSnapshot[]>;
  deleteSnapshot(snapshotId: string, options: SdkRequest & { readonly missingOk?: boolean }): Promise<void>;
  /** From version 0.4 on, which also brought `network.egress`. */
  runFromTemplate?(templateId: string, options: SdkCreateOptions): Promise<SdkSandbox>;
}
