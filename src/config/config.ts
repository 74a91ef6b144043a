/**
 * The environment contract: one function from an environment record to a frozen configuration. Every problem is
 * reported at once, with the variable's name, its value (never a secret's), and what is right. Empty means unset.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { DvoError } from '../lib/errors.ts';
import { bareApiUrl, DEVIN_API_URL } from '../lib/api-url.ts';
import { isLoopbackHost, isLoopbackUrl } from '../lib/loopback.ts';
import type { LogLevel } from '../lib/log.ts';
import { checkPlaces, readCoreweave, type CoreweaveConfig } from './coreweave.ts';
import { Reader, type ConfigSources, type Problem } from './reader.ts';
import type { SecretSource } from './secret-source.ts';
import { absolutePath, flag, httpUrl, oneOf, wholeNumber } from './variables.ts';

export interface Config {
  readonly devin: { readonly apiUrl: string; readonly outpostId: string; readonly token: SecretSource };
  readonly acceptorId?: string;
  readonly stateDir: string;
  readonly maxSessions: number;
  readonly provider: 'coreweave' | 'local';
  /** Present with that provider. */
  readonly coreweave?: CoreweaveConfig;
  readonly networkPolicy: 'enforce' | 'ignore';
  readonly workspace: {
    readonly workdir?: string;
    readonly user?: string;
    readonly home?: string;
    readonly repos: readonly string[];
    readonly gitUsername: string;
    readonly gitToken?: SecretSource;
  };
  readonly remote: {
    readonly sha?: string;
    readonly staticBaseUrl: string;
    readonly gatewayUrl?: string;
    readonly chromePath?: string;
    readonly desktop: boolean;
    readonly delivery: 'auto' | 'download' | 'upload';
    readonly restartLimit: number;
  };
  readonly timing: {
    readonly pollIntervalMs: number;
    readonly resyncIntervalMs: number;
    readonly watchIdleTimeoutMs: number;
    readonly claimRenewMarginMs: number;
    readonly probeIntervalMs: number;
  };
  readonly archives: {
    readonly suspendMode: 'snapshot' | 'keep' | 'discard';
    /** 0: none. */
    readonly checkpointEveryMs: number;
    readonly lifetimeMarginMs: number;
    readonly retentionMs: number;
  };
  readonly shutdown: { readonly mode: 'detach' | 'drain'; readonly graceMs: number };
  readonly ops: { readonly host: string; readonly port: number; readonly token?: SecretSource };
  readonly traces?: { readonly endpoint: string; readonly headers?: SecretSource };
  readonly log: { readonly level: LogLevel; readonly format: 'json' | 'pretty' };
  /** What the operator should know though it is no error. */
  readonly warnings: readonly string[];
}

const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'letters, digits, dots, - and _, at most 128');
const repository = z
  .string()
  .regex(
    /^(https?:\/\/[A-Za-z0-9.:[\]-]+\/[A-Za-z0-9._~/-]+|[A-Za-z0-9._-]+\/[A-Za-z0-9._-]+)$/,
    'HTTPS URLs without credentials, or org/name, separated by commas',
  );

/** What a command needs that asks the running daemon, and nothing else. */
export interface DaemonPlace {
  readonly stateDir: string;
}

/** @throws DvoError `config` */
export function loadDaemonPlace(sources: ConfigSources): DaemonPlace {
  const reader = new Reader(sources);
  const place = { stateDir: stateDir(reader) };
  throwAny(reader.finish());
  return place;
}

/** @throws DvoError `config` whose message lists every problem, a line each */
export function loadConfig(sources: ConfigSources): Config {
  const { config, problems } = examineConfig(sources);
  throwAny(problems);
  return config;
}

/** All of it, with the default in the place of what is missing or wrong; and what that is. */
export function examineConfig(sources: ConfigSources): {
  readonly config: Config;
  readonly problems: readonly Problem[];
} {
  const reader = new Reader(sources);
  const config = readAll(reader);
  checkTogether(reader, config);
  const problems = reader.finish();
  return { config: Object.freeze({ ...config, warnings: reader.warnings }), problems };
}

function throwAny(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new DvoError('config', listed(problems));
}

/** In lines for people. */
export function listed(problems: readonly Problem[]): string {
  const count = problems.length === 1 ? 'one problem' : `${problems.length} problems`;
  return [`the configuration has ${count}:`, ...problems.map(({ text }) => `  - ${text}`)].join('\n');
}

function readAll(reader: Reader): Omit<Config, 'warnings'> {
  const provider = reader.value('SANDBOX_PROVIDER', oneOf(['coreweave', 'local']), 'coreweave');
  return {
    devin: {
      token: reader.requiredSecret('DEVIN_OUTPOSTS_TOKEN'),
      outpostId: reader.required(
        'OUTPOST_ID',
        z.string().max(256),
        'the id of your outpost, like outpost_env-…',
      ),
      apiUrl: apiUrl(reader),
    },
    ...reader.maybe('acceptorId', 'ACCEPTOR_ID', name),
    stateDir: stateDir(reader),
    maxSessions: reader.value('MAX_CONCURRENT_SESSIONS', wholeNumber(1, 5_000), '5'),
    provider,
    ...(provider === 'coreweave' ? { coreweave: readCoreweave(reader) } : {}),
    networkPolicy: reader.value('NETWORK_POLICY', oneOf(['enforce', 'ignore']), 'enforce'),
    workspace: {
      ...reader.maybe('workdir', 'WORKDIR', absolutePath),
      ...reader.maybe('user', 'SANDBOX_USER', z.string().regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'a user name')),
      ...reader.maybe('home', 'SANDBOX_HOME', absolutePath),
      repos: reader.list('REPOS', repository),
      gitUsername: reader.value(
        'GIT_USERNAME',
        z.string().regex(/^[^\0\n]{1,128}$/, 'a user name'),
        'x-access-token',
      ),
      ...reader.maybeSecret('gitToken', 'GIT_TOKEN'),
    },
    remote: {
      ...reader.maybe(
        'sha',
        'DEVIN_WORKER_REMOTE_SHA',
        z.string().regex(/^[0-9a-f]{6,40}$/, '6 to 40 hex digits'),
      ),
      staticBaseUrl: reader
        .value('DEVIN_WORKER_STATIC_BASE_URL', httpUrl, 'https://static.devin.ai/devin-rs/remote')
        .replace(/\/+$/, ''),
      ...reader.maybe('gatewayUrl', 'DEVIN_OUTPOST_GATEWAY_URL', gatewayUrl),
      ...reader.maybe('chromePath', 'DEVIN_CHROME_PATH', absolutePath),
      desktop: reader.value('DEVIN_OUTPOST_DESKTOP', flag, 'true'),
      delivery: reader.value('REMOTE_DELIVERY', oneOf(['auto', 'download', 'upload']), 'auto'),
      restartLimit: reader.value('REMOTE_RESTART_LIMIT', wholeNumber(0, 100), '5'),
    },
    timing: readTiming(reader),
    archives: {
      suspendMode: reader.value('SUSPEND_MODE', oneOf(['snapshot', 'keep', 'discard']), 'snapshot'),
      checkpointEveryMs: reader.value('CHECKPOINT_INTERVAL_MINUTES', wholeNumber(0, 10_080), '30') * 60_000,
      lifetimeMarginMs: reader.value('LIFETIME_MARGIN_SECONDS', wholeNumber(10, 86_400), '900') * 1_000,
      retentionMs: reader.value('SNAPSHOT_RETENTION_DAYS', wholeNumber(1, 3_650), '14') * 86_400_000,
    },
    shutdown: {
      mode: reader.value('SHUTDOWN_MODE', oneOf(['detach', 'drain']), 'detach'),
      // Under Kubernetes' 30 s before the kill; Docker's 10 s have to be raised, as the compose file does.
      graceMs: reader.value('SHUTDOWN_GRACE_SECONDS', wholeNumber(1, 3_600), '25') * 1_000,
    },
    ops: {
      host: reader.value('OPS_HOST', z.string().max(255), '127.0.0.1'),
      port: reader.value('OPS_PORT', wholeNumber(0, 65_535), '8080'),
      ...reader.maybeSecret('token', 'OPS_TOKEN'),
    },
    ...readTraces(reader),
    log: {
      level: reader.value('LOG_LEVEL', oneOf(['debug', 'info', 'warn', 'error', 'silent']), 'info'),
      format: reader.value('LOG_FORMAT', oneOf(['json', 'pretty']), reader.terminal ? 'pretty' : 'json'),
    },
  };
}

const gatewayUrl = z.string().refine((value) => {
  return URL.canParse(value) && ['ws:', 'wss:', 'http:', 'https:'].includes(new URL(value).protocol);
}, 'a ws, wss, http or https URL');

function readTiming(reader: Reader): Config['timing'] {
  return {
    // Devin gives up on a session after five minutes; a few seconds' delay, were the watch to fail, is nothing.
    pollIntervalMs: reader.value('POLL_INTERVAL_MS', wholeNumber(100, 600_000), '5000'),
    resyncIntervalMs: reader.value('RESYNC_INTERVAL_MS', wholeNumber(1_000, 86_400_000), '300000'),
    // Keepalives come more often than this; a watch that misses several is dead.
    watchIdleTimeoutMs: reader.value('WATCH_IDLE_TIMEOUT_MS', wholeNumber(500, 290_000), '45000'),
    claimRenewMarginMs: reader.value('CLAIM_RENEW_MARGIN_SECONDS', wholeNumber(1, 290), '60') * 1_000,
    probeIntervalMs: reader.value('REMOTE_PROBE_INTERVAL_MS', wholeNumber(100, 600_000), '15000'),
  };
}

function readTraces(reader: Reader): Pick<Config, 'traces'> {
  const { endpoint } = reader.maybe('endpoint', 'OTEL_EXPORTER_OTLP_ENDPOINT', httpUrl);
  const headers = reader.maybeSecret('headers', 'OTEL_EXPORTER_OTLP_HEADERS');
  if (endpoint === undefined && headers.headers !== undefined) {
    reader.warnings.push(
      'OTEL_EXPORTER_OTLP_HEADERS is set, but nothing is traced without OTEL_EXPORTER_OTLP_ENDPOINT',
    );
  }
  return endpoint === undefined ? {} : { traces: { endpoint: endpoint.replace(/\/+$/, ''), ...headers } };
}

function apiUrl(reader: Reader): string {
  const given = reader.value('DEVIN_API_URL', httpUrl, DEVIN_API_URL);
  const stripped = bareApiUrl(given);
  if (stripped !== given)
    reader.warnings.push(`DEVIN_API_URL is given without /opbeta or a final slash: using ${stripped}`);
  return stripped;
}

function stateDir(reader: Reader): string {
  const given = reader.value(
    'STATE_DIR',
    z
      .string()
      .regex(/^(\/|~\/)[^\0]*$/, 'an absolute path, or one below ~/')
      // Making a folder there never ends.
      .regex(/^(?!\/(proc|sys|dev)(\/|$))/, 'a folder on a disk'),
    '~/.dvo',
  );
  return given.startsWith('~/') ? join(homedir(), given.slice(2)) : given;
}

/** What is right by itself and wrong together. */
function checkTogether(reader: Reader, config: Omit<Config, 'warnings'>): void {
  const { apiUrl: url } = config.devin;
  const unsandboxed = reader.value('ALLOW_UNSANDBOXED', flag, 'false');
  if (url.startsWith('http:') && !isLoopbackUrl(url)) {
    reader.problem('DEVIN_API_URL', url, 'https, because the token travels with every request');
  }
  if (config.provider === 'local' && !isLoopbackUrl(url)) {
    if (!unsandboxed) {
      reader.problem(
        'SANDBOX_PROVIDER',
        'local',
        'coreweave with a real Devin: local runs its commands on this machine without isolation (ALLOW_UNSANDBOXED=true if that is wanted)',
      );
    } else
      reader.warnings.push(
        'ALLOW_UNSANDBOXED: sessions of a real Devin run on this machine without isolation',
      );
  }
  checkArchives(reader, config);
  if (config.coreweave !== undefined) checkPlaces(reader, config.workspace);
  checkRepos(reader, config.workspace);
  if (config.networkPolicy === 'ignore')
    reader.warnings.push('NETWORK_POLICY=ignore: sessions reach hosts that Devin’s network policy forbids');
  checkOps(reader, config.ops);
}

/** A session that is served is moved to a new sandbox `LIFETIME_MARGIN_SECONDS` before the old one's end. */
function checkArchives(reader: Reader, config: Omit<Config, 'warnings'>): void {
  const { coreweave, archives } = config;
  if (coreweave === undefined) return;
  const { suspendMode, lifetimeMarginMs } = archives;
  if (lifetimeMarginMs * 2 > coreweave.maxLifetimeSeconds * 1_000) {
    reader.problem(
      'LIFETIME_MARGIN_SECONDS',
      String(lifetimeMarginMs / 1_000),
      `at most half of SANDBOX_MAX_LIFETIME_SECONDS, which is ${coreweave.maxLifetimeSeconds}`,
    );
  }
  if (coreweave.templateId !== undefined && coreweave.image === undefined && suspendMode === 'snapshot') {
    reader.warnings.push(
      'SANDBOX_TEMPLATE_ID without SANDBOX_IMAGE: no archive can be restored into a template’s own container, so suspended sessions keep their sandbox, and lose their work at the end of its lifetime',
    );
  }
  if (coreweave.templateId !== undefined && coreweave.image !== undefined) {
    reader.warnings.push(
      'SANDBOX_TEMPLATE_ID with SANDBOX_IMAGE: the image replaces the template’s whole container, and a GPU goes with it, because the SDK can ask for CPU and memory only',
    );
  }
  if (suspendMode === 'discard')
    reader.warnings.push('SUSPEND_MODE=discard: a session that goes to sleep loses its workspace');
}

function checkRepos(reader: Reader, { repos, gitToken }: Config['workspace']): void {
  if (gitToken === undefined) return;
  for (const repo of repos.filter((one) => one.startsWith('http:') && !isLoopbackUrl(one)))
    reader.problem('REPOS', repo, 'https, because GIT_TOKEN travels with every request');
}

/** A token of fewer characters could be found by trying. */
const SHORTEST_TOKEN = 16;

function checkOps(reader: Reader, { host, token }: Config['ops']): void {
  if (token !== undefined && token.read().reveal().length < SHORTEST_TOKEN) {
    reader.wrong(
      'OPS_TOKEN',
      `OPS_TOKEN is shorter than ${SHORTEST_TOKEN} characters (its value is not shown)`,
    );
  }
  if (isLoopbackHost(host)) return;
  if (token === undefined) {
    const right = `set, or OPS_TOKEN_FILE must name a file that holds it, because OPS_HOST=${host} is not loopback`;
    reader.problem('OPS_TOKEN', undefined, right);
  } else {
    reader.warnings.push(
      `OPS_HOST=${host}: status and metrics can be read there with OPS_TOKEN, which travels as clear text unless TLS is in front`,
    );
  }
}
