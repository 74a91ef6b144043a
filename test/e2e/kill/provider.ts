/** The local provider with a root of the test's choice: two daemons on one platform. */
import { createLocalProvider as create, type LocalOptions } from '../../../src/sandboxes/local/provider.ts';
import type { SandboxProvider } from '../../../src/sandboxes/provider.ts';

export async function createLocalProvider(options: LocalOptions): Promise<SandboxProvider> {
  return await create({ ...options, root: process.env['KILL_PLATFORM'] ?? options.root });
}
