/** Commits an index of 500 records over and over, until it is killed. */
import { systemClock } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { nodeDisk } from '../../src/state/node-disk.ts';
import { openSessionIndex } from '../../src/state/session-index.ts';
import { record } from '../session/view.ts';

const [, , stateDir = ''] = process.argv;
const { index } = await openSessionIndex({
  outpostId: 'outpost-1',
  acceptorId: 'me',
  disk: nodeDisk,
  stateDir,
  clock: systemClock,
  log: silentLogger,
});
for (let round = 0; ; round += 1) {
  for (let at = 0; at < 500; at += 1) index.put(`dvo-${at}`, record('serving', { stageSince: round }));
  await index.commit();
  process.stdout.write('.');
}
