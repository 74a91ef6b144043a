/**
 * The part of the environment contract that speaks of CoreWeave: which credential, and what every sandbox is made of.
 * Read only when that provider is chosen. What is wrong goes to the reader, which reports everything at once.
 */
import { z } from 'zod';
import { isLoopbackUrl } from '../lib/loopback.ts';
import type { Reader } from './reader.ts';
import type { SecretSource } from './secret-source.ts';
import { flag, httpUrl, oneOf, wholeNumber } from './variables.ts';

export type CoreweaveCredential =
  /** A CoreWeave API access token. */
  | { readonly kind: 'cwsandbox'; readonly apiKey: SecretSource; readonly baseUrl?: string }
  /** A W&B key. Without one the SDK looks into `~/.netrc`. */
  | {
      readonly kind: 'wandb';
      readonly apiKey?: SecretSource;
      readonly entity?: string;
      readonly project?: string;
      readonly baseUrl?: string;
    }
  /** A Forge key, which goes with a team. */
  | {
      readonly kind: 'forge';
      readonly apiKey: SecretSource;
      readonly team: string;
      readonly baseUrl?: string;
    };

/** A value in a secret store, resolved by the platform; its text never passes through here. */
export interface SecretReference {
  readonly store: string;
  readonly name: string;
  readonly field?: string;
  readonly envVar: string;
}

export interface CoreweaveConfig {
  readonly credential: CoreweaveCredential;
  /** Undefined: the official worker image, or with a template the template's own container. */
  readonly image?: string;
  /** Kubernetes quantities. */
  readonly cpu: string;
  readonly memory: string;
  readonly disk: string;
  readonly maxLifetimeSeconds: number;
  readonly runnerIds: readonly string[];
  readonly templateId?: string;
  readonly secrets: readonly SecretReference[];
  /** The operator's own, beside those that dvo finds its sandboxes by. */
  readonly tags: readonly string[];
  readonly noInternet: boolean;
}

/** Where the volume is mounted in every sandbox. */
export const VOLUME = '/workspace';
/** What the platform accepts in one create. */
const MAX_SECRETS = 50;
/** The platform's longest lifetime: 30 days. */
const MAX_LIFETIME_SECONDS = 2_592_000;

const identifier = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'letters, digits, dots, - and _, at most 128');
const cpuQuantity = z
  .string()
  .regex(/^(?=.*[1-9])\d{1,6}(\.\d{1,3}|m)?$/, 'a number of CPUs, like 2 or 500m');
const byteQuantity = z
  .string()
  .regex(/^(?=.*[1-9])\d{1,9}(\.\d{1,3})?([KMGT]i|[kMGT])?$/, 'an amount of memory, like 8Gi');
const imageReference = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}$/, 'a container image, like registry.example/worker:1');
const userTag = z
  .string()
  .regex(
    /^(?!dvo-)([A-Za-z0-9._-]{0,58}[A-Za-z0-9])$/,
    'tags of at most 59 letters, digits, dots, - and _ that end in a letter or digit and do not start with dvo-',
  );
const SECRET =
  /^(?<store>[A-Za-z0-9][\w.-]*)\/(?<name>[^\s,#=]+)(#(?<field>[^\s,#=]+))?=(?<envVar>[A-Za-z_]\w*)$/;
const secretReference = z
  .string()
  .regex(SECRET, 'store/name=ENV or store/name#field=ENV, separated by commas');

export function readCoreweave(reader: Reader): CoreweaveConfig {
  const runnerIds = reader.list('SANDBOX_RUNNER_IDS', identifier);
  const secrets = readSecrets(reader);
  const credential = readCredential(reader);
  if (runnerIds.length > 0 && credential.kind !== 'cwsandbox') {
    reader.problem(
      'SANDBOX_RUNNER_IDS',
      runnerIds.join(','),
      'unset with a W&B or Forge key: they reach no runners of your own',
    );
  }
  if (secrets.length > 0 && credential.kind !== 'forge') {
    reader.warnings.push(
      'SANDBOX_SECRETS: the platform resolves secret stores for Forge credentials (FORGE_API_KEY)',
    );
  }
  return {
    credential,
    ...reader.maybe('image', 'SANDBOX_IMAGE', imageReference),
    cpu: reader.value('SANDBOX_CPU', cpuQuantity, '2'),
    memory: reader.value('SANDBOX_MEMORY', byteQuantity, '8Gi'),
    disk: reader.value('SANDBOX_DISK', byteQuantity, '10Gi'),
    // Hours, not weeks: a create that was answered ambiguously holds its quota slot for this long.
    maxLifetimeSeconds: reader.value(
      'SANDBOX_MAX_LIFETIME_SECONDS',
      wholeNumber(60, MAX_LIFETIME_SECONDS),
      '28800',
    ),
    runnerIds,
    ...reader.maybe('templateId', 'SANDBOX_TEMPLATE_ID', identifier),
    secrets,
    tags: [...new Set(reader.list('SANDBOX_TAGS', userTag))],
    noInternet: reader.value('SANDBOX_NO_INTERNET', flag, 'false'),
  };
}

function readSecrets(reader: Reader): readonly SecretReference[] {
  const given = reader.list('SANDBOX_SECRETS', secretReference);
  const parsed = given.flatMap((text) => parseSecretReference(text) ?? []);
  const names = parsed.map(({ envVar }) => envVar);
  const double = names.find((name, at) => names.indexOf(name) !== at);
  if (double !== undefined)
    reader.problem('SANDBOX_SECRETS', given.join(','), `free of doubles: ${double} is set twice`);
  if (parsed.length > MAX_SECRETS)
    reader.problem('SANDBOX_SECRETS', undefined, `at most ${MAX_SECRETS} references`);
  return parsed;
}

/** `store/name[#field]=ENV`; undefined when it is none. */
export function parseSecretReference(text: string): SecretReference | undefined {
  const groups = SECRET.exec(text)?.groups;
  const store = groups?.['store'];
  const name = groups?.['name'];
  const envVar = groups?.['envVar'];
  if (store === undefined || name === undefined || envVar === undefined) return undefined;
  const field = groups?.['field'];
  return { store, name, envVar, ...(field === undefined ? {} : { field }) };
}

const KEYS = { cwsandbox: 'CWSANDBOX_API_KEY', wandb: 'WANDB_API_KEY', forge: 'FORGE_API_KEY' } as const;
const RIGHT = 'given one credential: CWSANDBOX_API_KEY, WANDB_API_KEY, or FORGE_API_KEY with FORGE_TEAM';

function readCredential(reader: Reader): CoreweaveCredential {
  const asked = reader.value('COREWEAVE_AUTH', oneOf(['auto', 'cwsandbox', 'wandb', 'forge']), 'auto');
  const { cwsandbox } = reader.maybeSecret('cwsandbox', KEYS.cwsandbox);
  const { wandb } = reader.maybeSecret('wandb', KEYS.wandb);
  const { forge } = reader.maybeSecret('forge', KEYS.forge);
  const set = (['cwsandbox', 'wandb', 'forge'] as const).filter(
    (kind) => ({ cwsandbox, wandb, forge })[kind] !== undefined,
  );
  const wandbUrl = baseUrl(reader, 'WANDB_SANDBOX_BASE_URL');
  if (asked === 'auto' && set.length > 1) {
    reader.problem(
      'COREWEAVE_AUTH',
      'auto',
      `one of cwsandbox, wandb, forge, because more than one credential is set: ${set.map((kind) => KEYS[kind]).join(' and ')}`,
    );
  }
  const kind = asked === 'auto' ? set[0] : asked;
  if (kind === 'cwsandbox' && cwsandbox !== undefined) {
    return { kind, apiKey: cwsandbox, ...baseUrl(reader, 'CWSANDBOX_BASE_URL') };
  }
  if (kind === 'forge' && forge !== undefined) {
    const { team } = reader.maybe('team', 'FORGE_TEAM', identifier);
    if (team === undefined) reader.problem('FORGE_TEAM', undefined, 'set, as FORGE_API_KEY is');
    return { kind, apiKey: forge, team: team ?? '', ...wandbUrl };
  }
  // Only wandb can do without a key of ours: the SDK finds the one that `wandb login` has stored.
  if (kind !== 'wandb')
    reader.problem(
      kind === undefined ? 'COREWEAVE_AUTH' : KEYS[kind],
      kind === undefined ? asked : undefined,
      RIGHT,
    );
  return {
    kind: 'wandb',
    ...(wandb === undefined ? {} : { apiKey: wandb }),
    ...reader.maybe('entity', 'WANDB_ENTITY', identifier),
    ...reader.maybe('project', 'WANDB_PROJECT', identifier),
    ...wandbUrl,
  };
}

function baseUrl(reader: Reader, variable: string): { readonly baseUrl?: string } {
  const read = reader.maybe('baseUrl', variable, httpUrl);
  if (read.baseUrl?.startsWith('http:') === true && !isLoopbackUrl(read.baseUrl)) {
    reader.problem(variable, read.baseUrl, 'https, because the credential travels with every request');
  }
  return read;
}

/** Only the volume is archived: what lies outside is lost at the first sleep. */
export function checkPlaces(
  reader: Reader,
  { workdir, home }: { readonly workdir?: string; readonly home?: string },
): void {
  const isArchived = (path: string): boolean => path === VOLUME || path.startsWith(`${VOLUME}/`);
  if (workdir !== undefined && !isArchived(workdir))
    reader.problem('WORKDIR', workdir, `${VOLUME} or below it, the only place that is archived`);
  if (home !== undefined && !isArchived(home))
    reader.warnings.push(
      `SANDBOX_HOME=${home} is not in ${VOLUME}, so a session that goes to sleep loses its HOME`,
    );
}
