/** STATE_DIR: writable, and free or held by a daemon that lives. */
import type { Clock } from '../../lib/clock.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import { lockStateDir } from '../../state/lock.ts';
import { nodeDisk } from '../../state/node-disk.ts';
import { openStateDir } from '../../state/state-dir.ts';
import { fail, pass, type Check } from './check.ts';

export function stateCheck(stateDir: string, clock: Clock): Check {
  return {
    id: 'state',
    title: 'STATE_DIR can be written and locked',
    async run() {
      try {
        await openStateDir(stateDir, nodeDisk);
        (await lockStateDir(stateDir, nodeDisk, clock.now())).release();
        return pass(stateDir);
      } catch (error) {
        if (!(error instanceof DvoError)) throw error;
        // What a running daemon does to its folder is no fault.
        if (error.code === 'locked') return pass(`in use: ${describeError(error)}`);
        return fail(
          describeError(error),
          'give this user a folder of its own that it may write, on a local disk with room (STATE_DIR)',
        );
      }
    },
  };
}
