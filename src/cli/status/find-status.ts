/** The status view for the commands: from the daemon that runs on STATE_DIR, else from what it has left on disk. */
import { join } from 'node:path';
import type { DaemonPlace } from '../../config/config.ts';
import { systemClock } from '../../lib/clock.ts';
import { unstopped, withDeadline } from '../../lib/deadline.ts';
import { DvoError } from '../../lib/errors.ts';
import { readText, type Fetch } from '../../lib/fetch.ts';
import { parseJson } from '../../lib/json.ts';
import { STATUS_VIEW, type StatusView } from '../../ops/view.ts';
import { History } from '../../orchestrator/history.ts';
import { statusOfIndex } from '../../orchestrator/status.ts';
import { readHistory } from '../../state/history-file.ts';
import { peekIndex } from '../../state/index-file.ts';
import { nodeDisk } from '../../state/node-disk.ts';
import { readOpsFile } from '../../state/ops-file.ts';

const ASK_MS = 5_000;
/** Five thousand sessions with their events. */
const LARGEST_VIEW_BYTES = 64 * 1024 * 1024;

/** @throws DvoError `state` when there is neither a daemon nor an index, or the daemon refuses */
export async function findStatus(
  place: DaemonPlace,
  fetch: Fetch,
  scrub: (text: string) => string,
): Promise<StatusView> {
  const url = await readOpsFile(place.stateDir, nodeDisk);
  const told = url === undefined ? undefined : await askDaemon(place, fetch, url);
  return told ?? (await readDisk(place, scrub));
}

/** Undefined: nobody listens there any more. */
async function askDaemon(place: DaemonPlace, fetch: Fetch, url: string): Promise<StatusView | undefined> {
  const { opsToken: token } = place;
  const headers = token === undefined ? {} : { authorization: `Bearer ${token.read().reveal()}` };
  const answer = await withDeadline(systemClock, 'ask the daemon', unstopped(ASK_MS), async (signal) => {
    try {
      const response = await fetch(`${url}/api/status`, {
        method: 'GET',
        headers,
        signal,
        redirect: 'manual',
      });
      return { status: response.status, text: await readText(response, LARGEST_VIEW_BYTES) };
    } catch (error) {
      if (signal.aborted) throw error;
      return undefined;
    }
  });
  if (answer === undefined) return undefined;
  if (answer.status !== 200) {
    throw new DvoError(
      'state',
      `the daemon at ${url} answers ${answer.status}; with OPS_TOKEN it wants the same OPS_TOKEN here`,
    );
  }
  const view = STATUS_VIEW.safeParse(parseJson(answer.text ?? ''));
  if (view.success) return view.data;
  throw new DvoError('state', `what answers at ${url} is not this version of dvo`, { cause: view.error });
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
