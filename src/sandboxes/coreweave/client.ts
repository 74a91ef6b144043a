/**
 * The one place that loads the SDK, lazily: it is an optional peer. Makes a client from a credential; nothing is sent
 * by that, so a wrong key shows only with the first call.
 */
import type { CoreweaveCredential } from '../../config/coreweave.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import type { SdkClient } from './sdk.ts';

/** `import()`, as a parameter: the test that runs the real SDK takes it from a folder of its own. */
export type ImportModule = (specifier: string) => Promise<unknown>;

const PACKAGE = '@coreweave/cwsandbox';
const INSTALL = `npm install ${PACKAGE}`;

const importInstalled: ImportModule = async (specifier) => await import(specifier);

interface NodeEntry {
  createSandboxClient(options: { apiKey: string; baseUrl?: string }): SdkClient;
}

interface WandbEntry {
  createSandboxClient(options: {
    apiKey?: string;
    entity?: string;
    project?: string;
    baseUrl?: string;
    env: Readonly<Record<string, string>>;
  }): SdkClient;
}

/** @throws DvoError `config` when the SDK is missing or refuses the credential */
export async function connectCoreweave(
  credential: CoreweaveCredential,
  importModule: ImportModule = importInstalled,
): Promise<SdkClient> {
  const baseUrl = credential.baseUrl === undefined ? {} : { baseUrl: credential.baseUrl };
  if (credential.kind === 'cwsandbox') {
    const entry = await load('node', importModule, isNodeEntry);
    const apiKey = credential.apiKey.read().reveal();
    return construct(() => entry.createSandboxClient({ apiKey, ...baseUrl }));
  }
  const entry = await load('wandb', importModule, isWandbEntry);
  const key = credential.apiKey?.read().reveal();
  const { entity, project } =
    credential.kind === 'forge' ? { entity: credential.team, project: undefined } : credential;
  return construct(() =>
    entry.createSandboxClient({
      ...(key === undefined ? {} : { apiKey: key }),
      ...(entity === undefined ? {} : { entity }),
      ...(project === undefined ? {} : { project }),
      ...baseUrl,
      // Nothing of our own environment: what counts was read by config, and a second credential must not slip in.
      env: {},
    }),
  );
}

async function load<Entry>(
  entry: string,
  importModule: ImportModule,
  isEntry: (module: unknown) => module is Entry,
): Promise<Entry> {
  const specifier = `${PACKAGE}/${entry}`;
  let module: unknown;
  try {
    module = await importModule(specifier);
  } catch (error) {
    throw new DvoError(
      'config',
      `SANDBOX_PROVIDER=coreweave needs the package ${PACKAGE}; install it with: ${INSTALL} (${describeError(error)})`,
    );
  }
  if (isEntry(module)) return module;
  throw new DvoError('config', `${specifier} is not what was expected; install a newer one with: ${INSTALL}`);
}

function construct(make: () => SdkClient): SdkClient {
  try {
    return make();
  } catch (error) {
    throw new DvoError('config', `the CoreWeave SDK refuses the credential: ${describeError(error)}`);
  }
}

function hasFactory(module: unknown): boolean {
  return (
    typeof module === 'object' &&
    module !== null &&
    'createSandboxClient' in module &&
    typeof module.createSandboxClient === 'function'
  );
}

function isNodeEntry(module: unknown): module is NodeEntry {
  return hasFactory(module);
}

function isWandbEntry(module: unknown): module is WandbEntry {
  return hasFactory(module);
}
