import { memoryWorld } from '../support/coreweave-world.ts';
import { describeCoreweaveDaemon } from './coreweave-daemon.ts';

describeCoreweaveDaemon('SDK in memory', memoryWorld);
