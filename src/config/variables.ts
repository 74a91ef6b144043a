/**
 * Every variable that dvo reads, in one table: name, what is right, default, and one line for people. The README's
 * table and .env.example are compared with it by a test.
 */
import { z } from 'zod';
import { DEVIN_API_URL } from '../lib/api-url.ts';

export interface Variable {
  readonly name: string;
  readonly group: Group;
  /** For the tables: what it is for. */
  readonly about: string;
  /** The default in words; undefined: none. */
  readonly fallback?: string;
  readonly secret?: true;
  /** Only with this provider. */
  readonly required?: true;
}

const GROUPS = [
  'Devin',
  'Daemon',
  'Sandboxes',
  'CoreWeave',
  'Workspace',
  'Remote',
  'Timing',
  'Operations',
] as const;
export type Group = (typeof GROUPS)[number];

const variable = (
  group: Group,
  name: string,
  about: string,
  more: Omit<Variable, 'group' | 'name' | 'about'> = {},
): Variable => ({ group, name, about, ...more });

export const VARIABLES: readonly Variable[] = [
  variable(
    'Devin',
    'DEVIN_OUTPOSTS_TOKEN',
    'service-user key (`cog_…`) with the scope `account.outposts.machine`',
    {
      secret: true,
      required: true,
    },
  ),
  variable('Devin', 'OUTPOST_ID', 'the outpost whose queue is served (`outpost_env-…`)', { required: true }),
  variable('Devin', 'DEVIN_API_URL', 'base URL, without `/opbeta`', { fallback: DEVIN_API_URL }),
  variable(
    'Daemon',
    'STATE_DIR',
    'where the index, the acceptor id and the lock live; one daemon per folder',
    {
      fallback: '~/.dvo',
    },
  ),
  variable('Daemon', 'ACCEPTOR_ID', 'who we are to the queue; never share one between two daemons', {
    fallback: 'generated once, kept in STATE_DIR',
  }),
  variable('Daemon', 'MAX_CONCURRENT_SESSIONS', 'sandboxes at work at the same time, 1 to 5000', {
    fallback: '5',
  }),
  variable(
    'Daemon',
    'SHUTDOWN_MODE',
    '`detach` leaves sandboxes running; `drain` suspends every session first',
    {
      fallback: 'detach',
    },
  ),
  variable('Daemon', 'SHUTDOWN_GRACE_SECONDS', 'how long a stop may take, 1 to 3600', { fallback: '25' }),
  variable(
    'Sandboxes',
    'SANDBOX_PROVIDER',
    '`coreweave`, or `local`: plain processes, for trying things out',
    {
      fallback: 'coreweave',
    },
  ),
  variable(
    'Sandboxes',
    'ALLOW_UNSANDBOXED',
    '`true` lets the local provider serve a real Devin: no isolation at all',
    {
      fallback: 'false',
    },
  ),
  variable(
    'Sandboxes',
    'NETWORK_POLICY',
    '`enforce`: sessions whose policy cannot be enforced are not claimed; `ignore`',
    {
      fallback: 'enforce',
    },
  ),
  variable(
    'Sandboxes',
    'SUSPEND_MODE',
    'when a session sleeps: `snapshot` archives its workspace and destroys the sandbox; `keep` leaves the sandbox; `discard` deletes both',
    { fallback: 'snapshot' },
  ),
  variable(
    'Sandboxes',
    'CHECKPOINT_INTERVAL_MINUTES',
    'between archives of a session that is being served; 0: none',
    { fallback: '30' },
  ),
  variable(
    'Sandboxes',
    'LIFETIME_MARGIN_SECONDS',
    'a session is moved to a new sandbox this long before the old one’s hard end',
    { fallback: '900' },
  ),
  variable('Sandboxes', 'SNAPSHOT_RETENTION_DAYS', 'how long the archive of a suspended session is kept', {
    fallback: '14',
  }),
  variable(
    'CoreWeave',
    'COREWEAVE_AUTH',
    '`auto` takes the one credential that is set; or `cwsandbox`, `wandb`, `forge`',
    { fallback: 'auto' },
  ),
  variable('CoreWeave', 'CWSANDBOX_API_KEY', 'CoreWeave API access token with the action SANDBOX_USER', {
    secret: true,
  }),
  variable('CoreWeave', 'CWSANDBOX_BASE_URL', 'address of the platform for that token', {
    fallback: 'https://api.cwsandbox.com',
  }),
  variable('CoreWeave', 'WANDB_API_KEY', 'W&B API key', { secret: true }),
  variable('CoreWeave', 'WANDB_ENTITY', 'W&B entity'),
  variable('CoreWeave', 'WANDB_PROJECT', 'W&B project'),
  variable('CoreWeave', 'WANDB_SANDBOX_BASE_URL', 'address of the platform for W&B and Forge keys', {
    fallback: 'https://api.cwsandbox.com',
  }),
  variable('CoreWeave', 'FORGE_API_KEY', 'Forge API key; goes with FORGE_TEAM', { secret: true }),
  variable('CoreWeave', 'FORGE_TEAM', 'team of the Forge key'),
  variable('CoreWeave', 'SANDBOX_IMAGE', 'container image of the sandboxes; runs as root', {
    fallback: 'the official worker image',
  }),
  variable('CoreWeave', 'SANDBOX_CPU', 'CPUs of a sandbox', { fallback: '2' }),
  variable('CoreWeave', 'SANDBOX_MEMORY', 'memory of a sandbox', { fallback: '8Gi' }),
  variable('CoreWeave', 'SANDBOX_DISK', 'size of the volume, the only thing that is archived', {
    fallback: '10Gi',
  }),
  variable(
    'CoreWeave',
    'SANDBOX_MAX_LIFETIME_SECONDS',
    'hard end of a sandbox, 60 to 2592000; sessions are moved to a new one before it',
    { fallback: '28800' },
  ),
  variable('CoreWeave', 'SANDBOX_RUNNER_IDS', 'runners of your own (CKS), separated by commas'),
  variable('CoreWeave', 'SANDBOX_TEMPLATE_ID', 'template that the sandboxes are made from; the way to a GPU'),
  variable(
    'CoreWeave',
    'SANDBOX_SECRETS',
    'secret-store references, `store/name[#field]=ENV`, separated by commas',
  ),
  variable('CoreWeave', 'SANDBOX_TAGS', 'further tags for every sandbox, separated by commas'),
  variable('CoreWeave', 'SANDBOX_NO_INTERNET', '`true` denies sandboxes all outgoing traffic', {
    fallback: 'false',
  }),
  variable(
    'Workspace',
    'WORKDIR',
    'working directory of the remote, in the volume (with CoreWeave `/workspace`)',
    {
      fallback: 'the volume',
    },
  ),
  variable('Workspace', 'SANDBOX_USER', 'user that the remote runs as', { fallback: 'the image’s user' }),
  variable('Workspace', 'SANDBOX_HOME', 'HOME of the remote', { fallback: '.dvo/home in the volume' }),
  variable(
    'Workspace',
    'REPOS',
    'repositories to clone beforehand: HTTPS URLs or `org/name`, separated by commas',
  ),
  variable('Workspace', 'GIT_USERNAME', 'user name for cloning', { fallback: 'x-access-token' }),
  variable('Workspace', 'GIT_TOKEN', 'token for cloning; never stored in the sandbox', { secret: true }),
  variable(
    'Remote',
    'DEVIN_WORKER_REMOTE_SHA',
    'build of devin-remote when the session is not pinned to one',
    {
      fallback: 'the latest',
    },
  ),
  variable('Remote', 'DEVIN_WORKER_STATIC_BASE_URL', 'where devin-remote is published', {
    fallback: 'https://static.devin.ai/devin-rs/remote',
  }),
  variable('Remote', 'DEVIN_OUTPOST_GATEWAY_URL', 'gateway, when a claim’s answer names none'),
  variable('Remote', 'DEVIN_CHROME_PATH', 'Chrome in the sandbox image'),
  variable('Remote', 'DEVIN_OUTPOST_DESKTOP', '`true` when the image has a desktop', { fallback: 'true' }),
  variable(
    'Remote',
    'REMOTE_DELIVERY',
    '`download` by the sandbox, `upload` by the daemon, or `auto`: upload when the download fails',
    { fallback: 'auto' },
  ),
  variable(
    'Remote',
    'REMOTE_RESTART_LIMIT',
    'relaunches without a healthy minute before a session is given up',
    {
      fallback: '5',
    },
  ),
  variable('Timing', 'POLL_INTERVAL_MS', 'between polls of pending entries, beside the watch', {
    fallback: '5000',
  }),
  variable('Timing', 'RESYNC_INTERVAL_MS', 'between complete lists, beside the watch', {
    fallback: '300000',
  }),
  variable('Timing', 'WATCH_IDLE_TIMEOUT_MS', 'silence after which the watch is replaced', {
    fallback: '45000',
  }),
  variable('Timing', 'CLAIM_RENEW_MARGIN_SECONDS', 'a claim is renewed when less than this is left of it', {
    fallback: '60',
  }),
  variable('Timing', 'REMOTE_PROBE_INTERVAL_MS', 'between looks at a running remote', { fallback: '15000' }),
  variable(
    'Operations',
    'OPS_HOST',
    'address of status page, health and metrics; other than loopback only with OPS_TOKEN',
    {
      fallback: '127.0.0.1',
    },
  ),
  variable('Operations', 'OPS_PORT', 'port of status page, health and metrics; 0 picks one', {
    fallback: '8080',
  }),
  variable(
    'Operations',
    'OPS_TOKEN',
    'what one must know to see status and metrics (bearer, or login); 16 characters at least',
    {
      secret: true,
    },
  ),
  variable('Operations', 'LOG_LEVEL', '`debug`, `info`, `warn`, `error` or `silent`', { fallback: 'info' }),
  variable('Operations', 'LOG_FORMAT', '`json` or `pretty`', { fallback: 'pretty on a terminal, else json' }),
  variable(
    'Operations',
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    'where traces of sessions go by OTLP over HTTP, without `/v1/traces`',
    { fallback: 'no traces' },
  ),
  variable(
    'Operations',
    'OTEL_EXPORTER_OTLP_HEADERS',
    'sent with them, like `authorization=Bearer%20…`; several are separated by commas',
    { secret: true },
  ),
];

/** The README's table. */
export function configurationTable(): string {
  const rows = GROUPS.flatMap((group) => [
    `| **${group}** | | |`,
    ...VARIABLES.filter((one) => one.group === group).map(
      (one) =>
        `| \`${one.name}\` | ${one.about}${one.secret === true ? ` (or \`${one.name}_FILE\`)` : ''} | ${one.required === true ? '**required**' : (one.fallback ?? '')} |`,
    ),
  ]);
  return ['| variable | what it is for | default |', '| --- | --- | --- |', ...rows].join('\n');
}

const text = z.string();

/** A whole number between two bounds. */
export function wholeNumber(min: number, max: number) {
  return text
    .regex(/^\d{1,15}$/, `a whole number from ${min} to ${max}`)
    .transform(Number)
    .refine((value) => value >= min && value <= max, `a whole number from ${min} to ${max}`);
}

export function oneOf<const Names extends readonly [string, ...string[]]>(names: Names) {
  return z.enum(names, { error: `one of ${names.join(', ')}` });
}

export const flag = oneOf(['true', 'false']).transform((value) => value === 'true');

/** An absolute path without `..`, safe to become part of a script once quoted. */
export const absolutePath = text.refine(
  (value) => value.startsWith('/') && !value.includes('\0') && !value.split('/').includes('..'),
  'an absolute path without ..',
);

export const httpUrl = text.refine((value) => {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '';
}, 'an http or https URL without credentials in it');
