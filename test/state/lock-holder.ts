/** Takes the lock of a STATE_DIR and holds it until it is killed. */
import { nodeDisk } from '../../src/state/node-disk.ts';
import { lockStateDir } from '../../src/state/lock.ts';

const [, , stateDir = ''] = process.argv;
await lockStateDir(stateDir, nodeDisk, Date.now());
process.stdout.write('locked\n');
setInterval(() => undefined, 1_000);
