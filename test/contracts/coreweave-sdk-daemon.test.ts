/** The daemon on the real SDK, over real gRPC, against the gateway emulator. `npm run test:coreweave`. */
import { describe } from 'vitest';
import { whySkipped } from '../support/coreweave-sdk.ts';
import { gatewayWorld } from '../support/coreweave-world.ts';
import { describeCoreweaveDaemon } from './coreweave-daemon.ts';

describe.skipIf(whySkipped() !== undefined)('on the real SDK', () => {
  describeCoreweaveDaemon('real SDK', gatewayWorld);
});
