/** A CoreWeave provider as the daemon would make it, over a client of the test's choice. */
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Redactor } from '../../src/lib/secret.ts';
import type { CoreweaveSettings } from '../../src/sandboxes/coreweave/create-options.ts';
import { createCoreweaveProvider, type CoreweaveOptions } from '../../src/sandboxes/coreweave/provider.ts';
import type { SdkClient } from '../../src/sandboxes/coreweave/sdk.ts';
import type { AttachableProvider } from '../../src/sandboxes/provider.ts';

export const SETTINGS: CoreweaveSettings = {
  cpu: '2',
  memory: '8Gi',
  disk: '10Gi',
  maxLifetimeSeconds: 3_600,
  runnerIds: [],
  secrets: [],
  tags: [],
  noInternet: false,
};

export async function coreweaveProvider(
  connect: () => Promise<SdkClient>,
  more: Partial<CoreweaveOptions> = {},
): Promise<AttachableProvider> {
  return await createCoreweaveProvider({
    connect,
    settings: SETTINGS,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    redactor: new Redactor(),
    observer: { call: () => undefined, rebuilt: () => undefined },
    ...more,
  });
}
