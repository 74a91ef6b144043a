/** The status view for the commands: from the daemon that runs on STATE_DIR, else from what it has left on disk. */
import { join } from 'node:path';
import type { DaemonPlace } from '../../config/config.ts';
import { systemClock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import type { Fetch } from '../../lib/fetch.ts';
import { STATUS_VIEW, type StatusView } from '../../ops/view.ts';
import { History } from '../../orchestrator/history.ts';
import { statusOfIndex } from '../../orchestrator/status.ts';
import { readHistory } from '../../state/history-file.ts';
import { peekIndex } from '../../state/index-file.ts';
import { nodeDisk } from '../../state/node-disk.ts';
import { askDaemon } from '../ask-daemon.ts';

/** @throws DvoError `state` when there is neither a daemon nor an index, or the daemon refuses */
export async function findStatus(
  place: DaemonPlace,
  fetch: Fetch,
  scrub: (text: string) => string,
): Promise<StatusView> {
  const told = await askDaemon(place.stateDir, fetch, { path: '/api/status', answer: STATUS_VIEW });
  return told ?? (await readDisk(place, scrub));
}

async function readDisk(place: DaemonPlace, scrub: (text: string) => string): Promise<StatusView> {
  const { stateDir } = place;
  const path = join(stateDir, 'sandbox_index.json');
  const index = await peekIndex(path, nodeDisk);
  if (index === undefined) {
    throw new DvoError(
      'state',
      `no daemon runs on ${stateDir}, and there is no index: is STATE_DIR the daemon's? Start one with: dvo run`,
    );
  }
  const history = new History(systemClock);
  history.restore(await readHistory(stateDir, nodeDisk), (name) => index.sessions.get(name) !== undefined);
  const { outpostId, acceptorId } = index;
  const parts = { outpostId, acceptorId, now: systemClock.now(), scrub };
  return statusOfIndex(index.sessions, history, parts);
}
