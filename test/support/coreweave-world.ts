/**
 * CoreWeave as the daemon's tests see it, twice: the SDK in memory, and the real SDK against the gateway emulator. Faults
 * are switched on by name; what the daemon asks for is recorded where it leaves the adapter.
 */
import { fixedSecret } from '../../src/config/secret-source.ts';
import { Redactor } from '../../src/lib/secret.ts';
import { connectCoreweave } from '../../src/sandboxes/coreweave/client.ts';
import type { SdkClient } from '../../src/sandboxes/coreweave/sdk.ts';
import { Gateway, importSdk } from './coreweave-sdk.ts';
import { MemoryPlatform, statusError } from './memory-sdk.ts';

export type Answer = 'UNAVAILABLE' | 'DEADLINE_EXCEEDED' | 'never';

export interface CoreweaveWorld {
  connect(): Promise<SdkClient>;
  /** The next create makes a sandbox, and is answered like this. */
  nextCreateAnswers(how: Answer): Promise<void>;
  lists(change: { readonly lagMs: number }): Promise<void>;
  nextBootHangs(): Promise<void>;
  nextArchiveFails(): Promise<void>;
  archives(change: { readonly takeMs: number }): Promise<void>;
  /** The account has no archives at all. */
  noArchives(): Promise<void>;
  deleteArchive(id: string): Promise<void>;
  /** Whether the SDK can limit a sandbox's egress. */
  readonly egressRules: boolean;
  /** Every call is answered UNAUTHENTICATED, until it is not. */
  credential(state: 'refused' | 'accepted'): Promise<void>;
  restartContainer(id: string): Promise<void>;
  kill(id: string): Promise<void>;
  /** Its lifetime is over. */
  expire(id: string): Promise<void>;
  /** Ids of the sandboxes that live, or are coming up, with this tag. */
  alive(tag: string): Promise<readonly string[]>;
  /** Ids of all archives, in every state. */
  archiveIds(): Promise<readonly string[]>;
  close(): Promise<void>;
}

export async function memoryWorld(): Promise<CoreweaveWorld> {
  const platform = await MemoryPlatform.open();
  const { bootMs } = platform;
  return {
    connect: async () => platform.client(),
    async nextCreateAnswers(how) {
      const error = how === 'never' ? 'hang' : statusError(how);
      platform.fail({ method: 'create', when: 'after', error });
    },
    async lists({ lagMs }) {
      platform.listLagMs = lagMs;
    },
    async nextBootHangs() {
      platform.bootMs = 60_000;
      platform.onCreate = () => {
        platform.bootMs = bootMs;
      };
    },
    async nextArchiveFails() {
      platform.nextSnapshotFails = 'CWSANDBOX_FSS_CREATE_FAILED';
    },
    async archives({ takeMs }) {
      platform.snapshotMs = takeMs;
    },
    async noArchives() {
      platform.archivesSupported = false;
    },
    async deleteArchive(id) {
      platform.snapshots.delete(id);
    },
    egressRules: true,
    async credential(state) {
      platform.refuses = state === 'refused';
    },
    restartContainer: (id) => platform.restartContainer(id),
    kill: (id) => platform.become(id, 'failed', 'killed by the platform'),
    expire: (id) => platform.become(id, 'failed', 'maximum lifetime exceeded'),
    alive: async (tag) => platform.alive(tag),
    archiveIds: async () => [...platform.snapshots.keys()],
    close: () => platform.close(),
  };
}

interface GatewayState {
  readonly sandboxes: readonly {
    readonly sandboxId: string;
    readonly state: string;
    readonly tags: readonly string[];
  }[];
  readonly snapshots: readonly { readonly id: string }[];
}

const ALIVE: ReadonlySet<string> = new Set(['pending', 'creating', 'running']);

export async function gatewayWorld(): Promise<CoreweaveWorld> {
  const node = process.execPath.replace(/\/node$/, '');
  const gateway = await Gateway.start('--bind', node);
  const post = async (path: string, body: unknown = {}): Promise<void> => {
    await gateway.control('POST', path, body);
  };
  const state = async (): Promise<GatewayState> => await gateway.control('GET', '/state');
  return {
    connect: () =>
      connectCoreweave(
        {
          kind: 'cwsandbox',
          apiKey: fixedSecret('secret-coreweave-key', new Redactor()),
          baseUrl: gateway.baseUrl,
        },
        importSdk,
      ),
    nextCreateAnswers: (how) =>
      post('/faults/next-create-ambiguous', how === 'never' ? { hang: true } : { code: how }),
    lists: ({ lagMs }) => post('/config', { listLagMs: lagMs }),
    nextBootHangs: () => post('/faults/boot-stuck'),
    nextArchiveFails: () => post('/faults/snapshot-fail', { stateReason: 'CWSANDBOX_FSS_CREATE_FAILED' }),
    archives: ({ takeMs }) => post('/config', { snapshotMs: takeMs }),
    noArchives: () =>
      post('/faults', {
        method: 'CreateFileSystemSnapshot',
        when: 'before',
        code: 'UNIMPLEMENTED',
        reason: 'CWSANDBOX_FSS_NOT_SUPPORTED',
        domain: 'cwsandbox.com',
        count: 0,
      }),
    deleteArchive: (id) => post(`/snapshots/${id}/set`, { state: 'failed', stateReason: 'lost' }),
    // The version that this is tested with has none.
    egressRules: false,
    credential: (wanted) => post('/faults/unauthenticated', { on: wanted === 'refused' }),
    restartContainer: (id) => post(`/sandboxes/${id}/restart-container`),
    kill: (id) => post(`/sandboxes/${id}/kill`, { state: 'failed', reason: 'killed by the platform' }),
    expire: (id) => post(`/sandboxes/${id}/expire`),
    async alive(tag) {
      const { sandboxes } = await state();
      return sandboxes
        .filter((one) => ALIVE.has(one.state) && one.tags.includes(tag))
        .map(({ sandboxId }) => sandboxId);
    },
    async archiveIds() {
      return (await state()).snapshots.map(({ id }) => id);
    },
    close: () => gateway[Symbol.asyncDispose](),
  };
}

export interface SentCall {
  readonly method: string;
  /** Everything that was handed over, but what goes to a command's standard input. */
  readonly text: string;
}

/** The same client, with every call of it and of its handles noted. */
export function recorded<T extends object>(target: T, calls: SentCall[], path = ''): T {
  return new Proxy(target, {
    get(object, property) {
      const value: unknown = Reflect.get(object, property);
      const name = `${path}${String(property)}`;
      if (typeof property === 'symbol' || name.endsWith('stdin'))
        return typeof value === 'function' ? value.bind(object) : value;
      if (typeof value === 'function') {
        return (...given: readonly unknown[]): unknown => {
          calls.push({ method: name, text: JSON.stringify(given, withoutSignals) ?? '' });
          const result: unknown = Reflect.apply(value, object, given);
          return result instanceof Promise ? result.then((one) => wrapped(one, calls)) : result;
        };
      }
      return typeof value === 'object' && value !== null && !(value instanceof Date)
        ? recorded(value, calls, `${name}.`)
        : value;
    },
  });
}

/** Handles are recorded too; plain data is passed on. */
function wrapped(value: unknown, calls: SentCall[]): unknown {
  return typeof value === 'object' && value !== null && 'sandboxId' in value && 'exec' in value
    ? recorded(value, calls, 'sandbox.')
    : value;
}

function withoutSignals(key: string, value: unknown): unknown {
  return key === 'signal' ? undefined : value;
}
