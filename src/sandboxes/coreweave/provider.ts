/**
 * CoreWeave sandboxes as a SandboxProvider. Ids go in and out, handles are made for one action; nothing is cached, no
 * call is repeated here: what an unclear answer means is the caller's to find out.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { Clock, Random } from '../../lib/clock.ts';
import type { Call } from '../../lib/deadline.ts';
import { DvoError } from '../../lib/errors.ts';
import type { Logger } from '../../lib/log.ts';
import type { Redactor } from '../../lib/secret.ts';
import {
  isGone,
  isProviderError,
  ProviderError,
  type AttachableProvider,
  type Attached,
  type AttachRequest,
  type AttachSinks,
  type Capabilities,
  type CreateRequest,
  type ExecRequest,
  type ExecResult,
  type LogsOptions,
  type SandboxInfo,
  type SandboxQuery,
  type SandboxState,
  type SnapshotInfo,
} from '../provider.ts';
import { attachIn } from './attach.ts';
import { Connection, type CoreweaveObserver } from './connection.ts';
import { createOptions, type CoreweaveSettings } from './create-options.ts';
import type { Operation } from './errors.ts';
import { execIn } from './exec.ts';
import { putFile, type Content } from './files.ts';
import { readLog } from './logs.ts';
import { COREWEAVE_PATHS, mainCommand } from './main-command.ts';
import type { SdkClient, SdkRequest, SdkSandbox } from './sdk.ts';
import { sandboxInfo, snapshotInfo } from './states.ts';

export interface CoreweaveOptions {
  readonly connect: () => Promise<SdkClient>;
  readonly settings: CoreweaveSettings;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly redactor: Redactor;
  readonly observer: CoreweaveObserver;
}

/** Lists were seen to show a create seconds late; nothing says how late they may be. */
const LIST_LAG_MS = 10_000;
/** Above this a write goes as a stream: the platform takes files of up to 32 MiB in one piece. */
const STREAM_FROM_BYTES = 8 * 1024 * 1024;
/** For the look at a sandbox before a person goes in, and for ending what they leave behind. */
const OPEN_MS = 30_000;
const KILL_MS = 5_000;

/** @throws DvoError `config`: no SDK, an SDK that is too old for what is configured, or no credential */
export async function createCoreweaveProvider(options: CoreweaveOptions): Promise<AttachableProvider> {
  const connection = new Connection(options);
  const client = await connection.client();
  const isRecent = client.runFromTemplate !== undefined;
  if (options.settings.templateId !== undefined && !isRecent) {
    throw new DvoError(
      'config',
      'SANDBOX_TEMPLATE_ID needs a newer @coreweave/cwsandbox: version 0.5 or later',
    );
  }
  return new CoreweaveProvider(options, connection, {
    // Templates and egress rules came with the same version.
    egressRules: isRecent,
    lifetimeMs: options.settings.maxLifetimeSeconds * 1_000,
    listLagMs: LIST_LAG_MS,
  });
}

class CoreweaveProvider implements AttachableProvider {
  readonly name = 'coreweave';
  readonly capabilities: Capabilities;
  readonly #options: CoreweaveOptions;
  readonly #connection: Connection;
  readonly #closing = new AbortController();

  constructor(options: CoreweaveOptions, connection: Connection, capabilities: Capabilities) {
    this.#options = options;
    this.#connection = connection;
    this.capabilities = capabilities;
  }

  async list(query: SandboxQuery, call: Call): Promise<readonly SandboxInfo[]> {
    const { redactor } = this.#options;
    return await this.#call('list sandboxes', 'sandbox', call, async (client, request) => {
      const filter = { tags: query.tags, showTerminated: query.include === 'all' };
      const found = await client.listAll({ ...request, ...filter });
      return found.map((one) => sandboxInfo(one, redactor));
    });
  }

  async get(id: string, call: Call): Promise<SandboxInfo> {
    return await this.#call('get sandbox', 'sandbox', call, async (client, request) =>
      sandboxInfo(await client.get(id, request), this.#options.redactor),
    );
  }

  async create(request: CreateRequest, call: Call): Promise<SandboxInfo> {
    const { settings, redactor } = this.#options;
    if (request.egress !== undefined && !this.capabilities.egressRules) {
      throw new ProviderError('unsupported', 'this version of @coreweave/cwsandbox has no egress rules');
    }
    const wanted = createOptions(settings, request);
    const operation = request.restoreFrom === undefined ? 'create' : 'restore';
    return await this.#call('create sandbox', operation, call, async (client, sdk) => {
      const { templateId } = settings;
      const made =
        templateId === undefined
          ? await client.run(mainCommand(COREWEAVE_PATHS), { ...wanted, ...sdk })
          : await client.runFromTemplate?.(templateId, { ...wanted, ...sdk });
      if (made === undefined)
        throw new ProviderError('unsupported', 'this version of the SDK has no templates');
      return sandboxInfo(made, redactor);
    });
  }

  async exec(id: string, request: ExecRequest, call: Call): Promise<ExecResult> {
    return await this.#inside('exec', 'exec', id, call, (handle, sdk) =>
      execIn(handle, request, sdk, this.#options.clock),
    );
  }

  async readFile(id: string, path: string, call: Call): Promise<Uint8Array> {
    return await this.#inside('read file', 'file', id, call, (handle, sdk) => handle.files.read(path, sdk));
  }

  async attach(
    id: string,
    request: AttachRequest,
    sinks: AttachSinks,
    signal: AbortSignal,
  ): Promise<Attached> {
    const task = { what: 'attach', operation: 'exec' } as const;
    // Only the look is bounded: a person may talk for hours.
    const look = { timeoutMs: OPEN_MS, signal };
    const handle = await this.#connection.call(task, look, (client, sdk) =>
      this.#connection.running(client, id, sdk),
    );
    const pidFile = `${COREWEAVE_PATHS.run}/attached-${this.#options.random.id().slice(0, 8)}.pid`;
    const mapped = (error: unknown): DvoError => this.#connection.mapped(error, task);
    const kill = async (): Promise<void> => {
      const call = { timeoutMs: KILL_MS, signal: new AbortController().signal };
      await this.exec(id, { argv: ['/bin/sh', '-c', 'kill -TERM "$(cat "$0")"', pidFile] }, call);
    };
    try {
      return await attachIn(handle, request, sinks, { signal, pidFile, kill, mapped });
    } catch (error) {
      throw mapped(error);
    }
  }

  async download(id: string, path: string, localPath: string, call: Call): Promise<void> {
    await this.#inside('download', 'file', id, call, async (handle, sdk) => {
      await pipeline(handle.files.readStream(path, sdk), createWriteStream(localPath));
    });
  }

  async writeFile(id: string, path: string, content: Uint8Array, call: Call): Promise<void> {
    await this.#put('write file', id, path, call, (handle, sdk) => ({
      size: content.byteLength,
      write: (part) =>
        content.byteLength < STREAM_FROM_BYTES
          ? handle.files.write(part, content, sdk)
          : handle.files.writeStream(part, pieces(content), sdk),
    }));
  }

  async upload(id: string, localPath: string, path: string, call: Call): Promise<void> {
    const { size } = await stat(localPath);
    await this.#put('upload', id, path, call, (handle, sdk) => ({
      size,
      write: (part) => handle.files.writeStream(part, createReadStream(localPath), sdk),
    }));
  }

  async snapshot(id: string, call: Call): Promise<SnapshotInfo> {
    const { templateId, image } = this.#options.settings;
    if (templateId !== undefined && image === undefined) {
      throw new ProviderError(
        'unsupported',
        'archives cannot be restored into a template’s own container: set SANDBOX_IMAGE too',
      );
    }
    const task = { what: 'archive', operation: 'snapshot' } as const;
    // Outside the bound: minutes of waiting must not keep probes and renewals from their turn.
    return await this.#connection.longCall(task, call, async (client, request) => {
      const handle = await this.#connection.running(client, id, request);
      return snapshotInfo(await handle.snapshot(request), this.#options.redactor);
    });
  }

  async snapshots(sourceSandboxId: string, call: Call): Promise<readonly SnapshotInfo[]> {
    const { redactor } = this.#options;
    try {
      return await this.#call('list archives', 'archive', call, async (client, request) => {
        const found = await client.listSnapshots({ ...request, sourceSandboxId });
        return found.map((one) => snapshotInfo(one, redactor));
      });
    } catch (error) {
      // An organization without the feature has none.
      if (isProviderError(error, 'unsupported')) return [];
      throw error;
    }
  }

  async getSnapshot(snapshotId: string, call: Call): Promise<SnapshotInfo> {
    return await this.#call('get archive', 'archive', call, async (client, request) =>
      snapshotInfo(await client.getSnapshot(snapshotId, request), this.#options.redactor),
    );
  }

  async deleteSnapshot(snapshotId: string, call: Call): Promise<void> {
    await this.#gone(() =>
      this.#call('delete archive', 'archive', call, (client, request) =>
        client.deleteSnapshot(snapshotId, { ...request, missingOk: true }),
      ),
    );
  }

  async destroy(id: string, call: Call): Promise<void> {
    // At once, without grace: the remote was stopped before. Not `stop()`, which waits, and remembers its failures.
    await this.#gone(() =>
      this.#call('destroy sandbox', 'sandbox', call, (client, request) =>
        client.delete(id, { ...request, missingOk: true }),
      ),
    );
  }

  logs(id: string, options: LogsOptions, signal: AbortSignal): AsyncIterable<string> {
    const { clock } = this.#options;
    const state = async (call: Call): Promise<SandboxState | undefined> => {
      try {
        return (await this.get(id, call)).state;
      } catch (error) {
        if (isProviderError(error, 'not-found')) return undefined;
        throw error;
      }
    };
    const source = { id, connection: this.#connection, clock, state };
    return readLog(source, options, AbortSignal.any([signal, this.#closing.signal]));
  }

  /** The SDK has nothing to close but streams; an idle client does not keep the process alive. */
  async close(): Promise<void> {
    this.#closing.abort();
  }

  async #gone(remove: () => Promise<void>): Promise<void> {
    try {
      await remove();
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  }

  async #put(
    what: string,
    id: string,
    path: string,
    call: Call,
    content: (handle: SdkSandbox, sdk: SdkRequest) => Content,
  ): Promise<void> {
    const unique = this.#options.random.id().slice(0, 8);
    await this.#inside(what, 'file', id, call, (handle, sdk) =>
      putFile(handle, path, content(handle, sdk), unique, sdk),
    );
  }

  /** Something in a sandbox that runs. */
  async #inside<T>(
    what: string,
    operation: Operation,
    id: string,
    call: Call,
    work: (handle: SdkSandbox, request: SdkRequest) => Promise<T>,
  ): Promise<T> {
    return await this.#call(what, operation, call, async (client, request) =>
      work(await this.#connection.running(client, id, request), request),
    );
  }

  async #call<T>(
    what: string,
    operation: Operation,
    call: Call,
    work: (client: SdkClient, request: SdkRequest) => Promise<T>,
  ): Promise<T> {
    return await this.#connection.call({ what, operation }, call, work);
  }
}

async function* pieces(content: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < content.byteLength; at += 65_536) yield content.subarray(at, at + 65_536);
}
