/**
 * The motor's parts, opened in order and handed to each other: STATE_DIR and its lock, index, platform, queue. Nothing of
 * it runs yet.
 */
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import { Heartbeats } from '../ops/health.ts';
import { createMetrics, type Metrics } from '../ops/metrics.ts';
import { createOutpostsApi } from '../outposts/api.ts';
import { createHttp } from '../outposts/http.ts';
import { QueueInformer } from '../outposts/queue.ts';
import { LOOKS_APART_MS } from '../outposts/sightings.ts';
import { createRemoteControl } from '../remote/control.ts';
import { acceptorTag, outpostTag, sandboxName } from '../sandboxes/names.ts';
import type { Tracer } from '../lib/tracer.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import { egressOf, type Egress } from '../session/egress.ts';
import { DEFAULT_RULES, type Rules } from '../session/rules.ts';
import type { NetworkPolicy } from '../session/session.ts';
import type { IndexOrigin } from '../state/index-file.ts';
import { lockStateDir } from '../state/lock.ts';
import { nodeDisk, removeTemporaries } from '../state/node-disk.ts';
import { openSessionIndex, type SessionIndex } from '../state/session-index.ts';
import { acceptorId, cursorStore, openStateDir } from '../state/state-dir.ts';
import { DEFAULT_LIMITS, type CallLimits, type Identity } from './context.ts';
import { Motor, type MotorParts } from './motor.ts';
import { openHistory } from './open-ops.ts';
import { openProvider, type ProviderParts } from './open-provider.ts';
import { openTracer, tracedApi, tracedProvider } from './tracing.ts';

export interface MotorOptions extends Omit<ProviderParts, 'observer'> {
  /** Another way to a provider than the configured one. */
  readonly openProvider?: (parts: ProviderParts) => Promise<SandboxProvider>;
  /** Other numbers than those for a live outpost. */
  readonly tuning?: { readonly limits?: Partial<CallLimits>; readonly rules?: Partial<Rules> };
}

/** Twice the longest wait plus call of a loop: silence beyond it means that the loop is dead. Milliseconds. */
const SLACK_MS = 120_000;
const SWEEP_EVERY_MS = 60_000;
/** Longer than any sandbox takes to come up and get its marker. */
const STRAY_GRACE_MS = 600_000;

/**
 * The motor at rest, with all that it needs: STATE_DIR is locked, index and platform are open. `opened` closes it.
 * @throws DvoError `state`, `locked`, `config`
 */
export async function openMotor(options: MotorOptions, opened: AsyncDisposableStack): Promise<OpenMotor> {
  const { config, clock, random, log } = options;
  const { stateDir } = config;
  await openStateDir(stateDir, nodeDisk);
  const lock = await lockStateDir(stateDir, nodeDisk, clock.now());
  opened.defer(() => lock.release());
  await removeTemporaries(stateDir);
  const acceptor = await acceptorId(stateDir, nodeDisk, random, config.acceptorId);
  const metrics = createMetrics();
  const { index, origin } = await openSessionIndex({
    disk: nodeDisk,
    stateDir,
    clock,
    log,
    outpostId: config.devin.outpostId,
    acceptorId: acceptor,
    onCommit: (result, tookMs) => metrics.commit(result, tookMs),
  });
  const identity = identityOf(config.devin.outpostId, acceptor);
  // Longer than the watch's own limit, so that the informer is the one that notices silence.
  const http = createHttp({ bodyTimeoutMs: config.timing.watchIdleTimeoutMs + 10_000 });
  opened.defer(() => http.close());
  const traces = await openTracer(options, { outpostId: identity.outpostId, acceptorId: acceptor, metrics });
  opened.defer(() => traces.close());
  const { tracer } = traces;
  const open = options.openProvider ?? openProvider;
  const provider = tracedProvider(await open({ ...options, observer: metrics.platform }), tracer);
  opened.defer(() => provider.close());
  const beats = new Heartbeats(clock, allowedSilence(config));
  const parts = motorParts(options, {
    index,
    identity,
    provider,
    metrics,
    tracer,
    beats,
    fetch: http.fetch,
    acceptor,
  });
  const motor = new Motor(parts);
  opened.defer(await openHistory(options, motor));
  return { motor, identity, provider, metrics, beats, origin, rules: parts.rules };
}

export interface OpenMotor {
  readonly motor: Motor;
  readonly identity: Identity;
  readonly provider: SandboxProvider;
  readonly metrics: Metrics;
  readonly beats: Heartbeats;
  readonly origin: IndexOrigin;
  readonly rules: Rules;
}

interface Opened {
  readonly index: SessionIndex;
  readonly identity: Identity;
  readonly provider: SandboxProvider;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  readonly beats: Heartbeats;
  readonly fetch: Parameters<typeof createOutpostsApi>[0]['fetch'];
  readonly acceptor: string;
}

function motorParts(options: MotorOptions, opened: Opened): MotorParts {
  const { config, clock, random, log, redactor, tuning } = options;
  const { index, identity, provider, metrics, tracer, beats, fetch, acceptor } = opened;
  const { devin, timing, remote, workspace, stateDir } = config;
  const untraced = createOutpostsApi({
    baseUrl: devin.apiUrl,
    outpostId: devin.outpostId,
    acceptorId: acceptor,
    token: () => devin.token.read(),
    observer: {
      request: (operation, code, tookMs) => metrics.request(operation, code, tookMs),
      skipped: () => metrics.skipped(),
    },
    fetch,
    clock,
    random,
    log,
    redactor,
  });
  const api = tracedApi(untraced, tracer);
  const { gitToken, ...paths } = workspace;
  return {
    clock,
    random,
    log,
    recorder: metrics,
    tracer,
    api,
    index,
    provider,
    identity,
    rules: { ...rulesOf(config), ...tuning?.rules },
    limits: { ...DEFAULT_LIMITS, ...tuning?.limits },
    gatewayUrl: remote.gatewayUrl,
    admission: {
      canEnforce: (policy) => egressFor(config, provider, policy, undefined).kind !== 'unenforceable',
    },
    egressFor: (policy, gatewayUrl) => egressFor(config, provider, policy, gatewayUrl),
    beat: (task) => beats.beat(task),
    openQueue: (hooks) =>
      new QueueInformer({
        ...hooks,
        api,
        clock,
        random,
        log,
        acceptorId: acceptor,
        looksApartMs: LOOKS_APART_MS,
        cursor: cursorStore(stateDir, nodeDisk, devin),
        settings: { ...timing, callMs: DEFAULT_LIMITS.apiMs },
        onReconnect: metrics.reconnect,
        beat: (task) => beats.beat(task),
      }),
    remote: createRemoteControl({
      provider,
      clock,
      random,
      fetch,
      settings: {
        ...remote,
        ...paths,
        cacheDir: join(stateDir, 'binaries'),
        ...(gitToken === undefined ? {} : { gitToken: () => gitToken.read() }),
      },
    }),
    settings: {
      maxSessions: config.maxSessions,
      renewMarginMs: timing.claimRenewMarginMs,
      sweepEveryMs: SWEEP_EVERY_MS,
      strayGraceMs: STRAY_GRACE_MS,
    },
  };
}

function identityOf(outpostId: string, acceptor: string): Identity {
  const tags = { acceptorTag: acceptorTag(acceptor), outpostTag: outpostTag(outpostId) };
  return {
    outpostId,
    acceptorId: acceptor,
    ...tags,
    tags: [tags.outpostTag, tags.acceptorTag],
    nameOf: (sessionId) => sandboxName(outpostId, sessionId),
  };
}

function rulesOf(config: Config): Rules {
  return {
    ...DEFAULT_RULES,
    probeEveryMs: config.timing.probeIntervalMs,
    restartLimit: config.remote.restartLimit,
    suspendMode: config.archives.suspendMode,
    checkpointEveryMs: config.archives.checkpointEveryMs,
    lifetimeMarginMs: config.archives.lifetimeMarginMs,
    retentionMs: config.archives.retentionMs,
  };
}

/** What the policy comes to with this provider as configured. */
function egressFor(
  config: Config,
  provider: SandboxProvider,
  policy: NetworkPolicy | undefined,
  gatewayUrl: string | undefined,
): Egress {
  if (config.networkPolicy === 'ignore') return { kind: 'open' };
  const { delivery, staticBaseUrl } = config.remote;
  const needs = [gatewayUrl, delivery === 'upload' ? undefined : staticBaseUrl].flatMap((url) =>
    url === undefined ? [] : [new URL(url).hostname],
  );
  const egress = egressOf(policy, needs);
  if (egress.kind === 'limited' && !provider.capabilities.egressRules)
    return { kind: 'unenforceable', rule: `the ${provider.name} provider has no egress rules` };
  return egress;
}

function allowedSilence(config: Config): Readonly<Record<string, number>> {
  const { pollIntervalMs, resyncIntervalMs } = config.timing;
  return {
    // One watch lives for five minutes at most; the loop comes round when it ends.
    watch: 420_000 + SLACK_MS,
    poll: pollIntervalMs + SLACK_MS,
    // A list of many pages, each with its own limit.
    resync: resyncIntervalMs + 600_000 + SLACK_MS,
    claims: SLACK_MS,
    janitor: SWEEP_EVERY_MS + 600_000 + SLACK_MS,
    upkeep: SLACK_MS,
  };
}
