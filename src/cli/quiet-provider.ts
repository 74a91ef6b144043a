/** The configured provider for a command that works beside a daemon: it logs and counts nothing. */
import { silentLogger } from '../lib/log.ts';
import { openProvider, type ProviderParts } from '../orchestrator/open-provider.ts';
import type { AttachableProvider } from '../sandboxes/provider.ts';

/** @throws DvoError `config` */
export async function openQuietProvider(
  parts: Omit<ProviderParts, 'log' | 'observer'>,
): Promise<AttachableProvider> {
  const observer = { call: () => undefined, rebuilt: () => undefined };
  return await openProvider({ ...parts, log: silentLogger, observer });
}
