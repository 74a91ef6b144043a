import { MemoryPlatform, statusError } from '../support/memory-sdk.ts';
import { coreweaveProvider } from '../support/coreweave-provider.ts';
import { describeProviderContract } from './provider-contract.ts';

describeProviderContract(
  'coreweave, SDK in memory',
  async () => {
    const platform = await MemoryPlatform.open();
    const open = () => coreweaveProvider(async () => platform.client());
    return {
      provider: await open(),
      restart: open,
      makeNextCreateAmbiguous: () =>
        platform.fail({ method: 'create', when: 'after', error: statusError('UNAVAILABLE') }),
      close: () => platform.close(),
    };
  },
  { timedLogs: true },
);
