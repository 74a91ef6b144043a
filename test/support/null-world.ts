/** A platform and a remote that answer at once (or after `latencyMs`), so that only the motor is measured. */
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { noTracer } from '../../src/lib/tracer.ts';
import { Redactor, Secret } from '../../src/lib/secret.ts';
import { createMetrics } from '../../src/ops/metrics.ts';
import { createOutpostsApi } from '../../src/outposts/api.ts';
import { createHttp } from '../../src/outposts/http.ts';
import { QueueInformer } from '../../src/outposts/queue.ts';
import { Motor, type MotorSettings } from '../../src/orchestrator/motor.ts';
import { DEFAULT_LIMITS } from '../../src/orchestrator/context.ts';
import type { Marker, RemoteControl } from '../../src/remote/port.ts';
import { acceptorTag, outpostTag, sandboxName } from '../../src/sandboxes/names.ts';
import { ProviderError, type SandboxInfo, type SandboxProvider } from '../../src/sandboxes/provider.ts';
import { egressOf } from '../../src/session/egress.ts';
import { DEFAULT_RULES, type Rules } from '../../src/session/rules.ts';
import { nodeDisk } from '../../src/state/node-disk.ts';
import { openSessionIndex } from '../../src/state/session-index.ts';

export interface NullWorld {
  readonly provider: SandboxProvider;
  readonly remote: RemoteControl;
  /** Whatever is there, by id. Tests put strays in and look what is left. */
  readonly sandboxes: Map<string, { readonly info: SandboxInfo; readonly tags: readonly string[] }>;
  readonly markers: Map<string, Marker>;
  /** Probes so far. */
  readonly probes: () => number;
}

/** @param before the world whose sandboxes go on in this one, as after a restart */
export function nullWorld(latencyMs = 0, before?: NullWorld): NullWorld {
  const sandboxes: NullWorld['sandboxes'] = before?.sandboxes ?? new Map();
  const markers: NullWorld['markers'] = before?.markers ?? new Map();
  const paths = { volume: '/workspace', run: '/run/dvo' };
  // Ids go on where the world before ended.
  let made = sandboxes.size;
  let probes = 0;
  const wait = async (): Promise<void> => {
    if (latencyMs > 0) await systemClock.sleep(latencyMs);
  };
  const provider: SandboxProvider = {
    name: 'null',
    capabilities: { egressRules: false, listLagMs: 0 },
    async list({ tags }) {
      await wait();
      return [...sandboxes.values()]
        .filter((one) => tags.every((tag) => one.tags.includes(tag)))
        .map((one) => one.info);
    },
    async get(id) {
      await wait();
      const known = sandboxes.get(id);
      if (known === undefined) throw new ProviderError('not-found', id);
      return known.info;
    },
    async create({ tags }) {
      await wait();
      made += 1;
      const info: SandboxInfo = { id: `null-${made}`, state: 'running', paths };
      sandboxes.set(info.id, { info, tags });
      return info;
    },
    exec: async () => ({ exitCode: 0, stdout: '', stderr: '', truncated: false }),
    readFile: async () => new Uint8Array(),
    writeFile: async () => undefined,
    upload: async () => undefined,
    snapshot: async (id) => ({ id: `snap-${id}`, state: 'ready', sourceSandboxId: id }),
    snapshots: async () => [],
    getSnapshot: async (id) => ({ id, state: 'ready' }),
    deleteSnapshot: async () => undefined,
    async destroy(id) {
      sandboxes.delete(id);
    },
    logs: async function* () {},
    close: async () => undefined,
  };
  const remote: RemoteControl = {
    resolve: async () => ({ sha: 'abcdef0', url: 'http://x', sha256: '0'.repeat(64) }),
    readMarker: async ({ sandboxId }) => markers.get(sandboxId),
    async prepare({ sandboxId }, { marker }) {
      markers.set(sandboxId, marker);
      return { kind: 'prepared', downloaded: false, notes: [] };
    },
    condemn: async ({ sandboxId }) => markers.get(sandboxId),
    spare: async () => undefined,
    launch: async (_, { launchId }) => ({ launchId, pid: 1, adopted: false }),
    async probe({ sandboxId }) {
      await wait();
      if (!sandboxes.has(sandboxId)) throw new ProviderError('not-found', sandboxId);
      probes += 1;
      return { kind: 'running', launchId: 'x', pid: 1 };
    },
    stop: async () => undefined,
  };
  return { provider, remote, sandboxes, markers, probes: () => probes };
}

export interface MotorSetup {
  readonly url: string;
  readonly outpostId: string;
  readonly token: string;
  readonly stateDir: string;
  readonly maxSessions: number;
  readonly world: Pick<NullWorld, 'provider' | 'remote'>;
  readonly settings?: Partial<MotorSettings>;
  readonly rules?: Partial<Rules>;
}

export async function startMotor(setup: MotorSetup): Promise<Motor> {
  const { url, outpostId, token, stateDir, maxSessions, world } = setup;
  const acceptorId = 'bench';
  const http = createHttp({ bodyTimeoutMs: 60_000 });
  const api = createOutpostsApi({
    baseUrl: url,
    outpostId,
    acceptorId,
    token: () => new Secret(token),
    fetch: http.fetch,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    redactor: new Redactor(),
    observer: { request: () => undefined, skipped: () => undefined },
  });
  const { index } = await openSessionIndex({
    disk: nodeDisk,
    stateDir,
    clock: systemClock,
    log: silentLogger,
    outpostId,
    acceptorId,
  });
  const tags = { acceptorTag: acceptorTag(acceptorId), outpostTag: outpostTag(outpostId) };
  const motor = new Motor({
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    recorder: createMetrics(),
    tracer: noTracer,
    api,
    index,
    provider: world.provider,
    remote: world.remote,
    identity: {
      outpostId,
      acceptorId,
      ...tags,
      tags: [tags.outpostTag, tags.acceptorTag],
      nameOf: (sessionId) => sandboxName(outpostId, sessionId),
    },
    rules: { ...DEFAULT_RULES, ...setup.rules },
    limits: DEFAULT_LIMITS,
    admission: { canEnforce: () => true },
    egressFor: (policy) => egressOf(policy, []),
    gatewayUrl: undefined,
    beat: () => undefined,
    settings: {
      maxSessions,
      renewMarginMs: 60_000,
      sweepEveryMs: 60_000,
      strayGraceMs: 600_000,
      ...setup.settings,
    },
    openQueue: (hooks) =>
      new QueueInformer({
        ...hooks,
        api,
        acceptorId,
        looksApartMs: 0,
        clock: systemClock,
        random: systemRandom,
        log: silentLogger,
        cursor: { load: async () => undefined, save: async () => undefined },
        settings: {
          pollIntervalMs: 5_000,
          resyncIntervalMs: 300_000,
          watchIdleTimeoutMs: 45_000,
          callMs: 30_000,
        },
        onReconnect: () => undefined,
        beat: () => undefined,
      }),
  });
  motor.start();
  return motor;
}

export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}
