/** The provider contract on the real SDK, over real gRPC, against the gateway emulator. `npm run test:coreweave`. */
import { afterAll, beforeAll, describe } from 'vitest';
import { fixedSecret } from '../../src/config/secret-source.ts';
import { Redactor } from '../../src/lib/secret.ts';
import { connectCoreweave } from '../../src/sandboxes/coreweave/client.ts';
import type { SandboxProvider } from '../../src/sandboxes/provider.ts';
import { coreweaveProvider } from '../support/coreweave-provider.ts';
import { Gateway, importSdk, whySkipped } from '../support/coreweave-sdk.ts';
import { describeProviderContract } from './provider-contract.ts';

const why = whySkipped();
if (why !== undefined) console.warn(`SKIPPED, the real CoreWeave SDK was not tested: ${why}`);

describe.skipIf(why !== undefined)('on the real SDK', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await Gateway.start();
  });

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
  });

  describeProviderContract(
    'coreweave, real SDK',
    async () => {
      const credential = {
        kind: 'cwsandbox',
        apiKey: fixedSecret('test-api-key', new Redactor()),
        baseUrl: gateway.baseUrl,
      } as const;
      const open = () => coreweaveProvider(() => connectCoreweave(credential, importSdk));
      const provider = await open();
      let armed: Promise<unknown> = Promise.resolve();
      const create: SandboxProvider['create'] = async (request, call) => {
        await armed;
        return await provider.create(request, call);
      };
      return {
        provider: new Proxy(provider, {
          get(target, property) {
            const value: unknown = property === 'create' ? create : Reflect.get(target, property);
            return typeof value === 'function' ? value.bind(target) : value;
          },
        }),
        restart: open,
        makeNextCreateAmbiguous: () => {
          armed = gateway.control('POST', '/faults/next-create-ambiguous', {});
        },
        async close() {
          await provider.close();
          const { sandboxes } = await gateway.control<{ sandboxes: { sandboxId: string }[] }>(
            'GET',
            '/state',
          );
          for (const { sandboxId } of sandboxes) await gateway.control('DELETE', `/sandboxes/${sandboxId}`);
        },
      };
    },
    { timedLogs: true },
  );
});
