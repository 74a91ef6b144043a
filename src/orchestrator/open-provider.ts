/** Makes the sandbox provider that is configured. The one place that knows which there are. */
import { join } from 'node:path';
import type { Config } from '../config/config.ts';
import type { Clock, Random } from '../lib/clock.ts';
import { DvoError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Redactor } from '../lib/secret.ts';
import { connectCoreweave } from '../sandboxes/coreweave/client.ts';
import type { CoreweaveObserver } from '../sandboxes/coreweave/connection.ts';
import { createCoreweaveProvider } from '../sandboxes/coreweave/provider.ts';
import { createLocalProvider } from '../sandboxes/local/provider.ts';
import type { AttachableProvider } from '../sandboxes/provider.ts';

export interface ProviderParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly redactor: Redactor;
  /** PATH for local sandboxes. */
  readonly path: string;
  readonly observer: CoreweaveObserver;
}

/** @throws DvoError `config`: the SDK is missing or too old for what is configured, or refuses the credential */
export async function openProvider(parts: ProviderParts): Promise<AttachableProvider> {
  const { config, clock, random, log, redactor, path, observer } = parts;
  if (config.provider === 'local') {
    return await createLocalProvider({ root: join(config.stateDir, 'local'), clock, random, path });
  }
  if (config.coreweave === undefined) {
    throw new DvoError('internal', 'the CoreWeave settings were not read');
  }
  const { credential, ...settings } = config.coreweave;
  const connect = () => connectCoreweave(credential);
  return await createCoreweaveProvider({ connect, settings, clock, random, log, redactor, observer });
}
