/** The configured provider for a command that looks at sandboxes beside a daemon: it logs and counts nothing. */
import type { Config } from '../config/config.ts';
import { systemClock, systemRandom } from '../lib/clock.ts';
import { silentLogger } from '../lib/log.ts';
import type { Redactor } from '../lib/secret.ts';
import { openProvider } from '../orchestrator/open-provider.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';

/** @throws DvoError `config` */
export async function openQuietProvider(config: Config, redactor: Redactor): Promise<SandboxProvider> {
  return await openProvider({
    config,
    redactor,
    clock: systemClock,
    random: systemRandom,
    log: silentLogger,
    // For sandboxes that are made here; these commands make none.
    path: '',
    observer: { call: () => undefined, rebuilt: () => undefined },
  });
}
