import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { createLocalProvider } from '../../src/sandboxes/local/provider.ts';
import { kill, processesOf } from '../../src/sandboxes/local/processes.ts';
import {
  ProviderError,
  type AttachableProvider,
  type SandboxProvider,
} from '../../src/sandboxes/provider.ts';
import { describeProviderContract } from './provider-contract.ts';

describeProviderContract(
  'local',
  async () => {
    const root = await mkdtemp(join(tmpdir(), 'dvo-contract-'));
    const open = (): Promise<AttachableProvider> =>
      createLocalProvider({
        root,
        clock: systemClock,
        random: systemRandom,
        path: process.env['PATH'] ?? '',
      });
    const inner = await open();
    let ambiguous = false;
    const create: SandboxProvider['create'] = async (request, call) => {
      const info = await inner.create(request, call);
      if (!ambiguous) return info;
      ambiguous = false;
      throw new ProviderError('ambiguous', 'the answer was lost');
    };
    const provider = new Proxy(inner, {
      get(target, property) {
        const value = property === 'create' ? create : Reflect.get(target, property);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    return {
      provider,
      restart: open,
      makeNextCreateAmbiguous: () => {
        ambiguous = true;
      },
      async close() {
        await kill(await processesOf(root));
        await rm(root, { recursive: true, force: true, maxRetries: 5 });
      },
    };
  },
  { timedLogs: false },
);
