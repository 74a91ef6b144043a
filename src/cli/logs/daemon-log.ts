/** `dvo logs --daemon`: the latest lines of the daemon's own log, and with `-f` those to come, past its restarts. */
import { stripVTControlCharacters } from 'node:util';
import { systemClock } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { parseJson } from '../../lib/json.ts';
import { LOG_LINE } from '../../ops/recent-log.ts';
import { streamFromDaemon } from '../ask-daemon.ts';
import type { Beside } from '../beside.ts';
import type { Terminal } from '../terminal.ts';
import type { Amount } from './amount.ts';

const LOOK_EVERY_MS = 1_000;

/** @throws DvoError `state`: no daemon runs */
export async function showDaemonLog(beside: Beside, amount: Amount, terminal: Terminal): Promise<void> {
  const lastAt = await printLog(beside, query(amount), terminal);
  if (lastAt !== undefined) return;
  throw new DvoError(
    'state',
    `no daemon runs on ${beside.stateDir}; what the last one wrote is where its standard output went, ` +
      'as docker logs, kubectl logs or journalctl show it',
  );
}

/** Until a signal ends it. */
export async function followDaemonLog(beside: Beside, amount: Amount, terminal: Terminal): Promise<never> {
  let wanted = amount;
  for (let told = false; ; await systemClock.sleep(LOOK_EVERY_MS)) {
    const lastAt = await printLog(beside, `${query(wanted)}&follow`, terminal);
    if (lastAt === undefined && !told) terminal.err('no daemon runs: waiting\n');
    told = lastAt === undefined;
    if (lastAt !== undefined) wanted = { since: lastAt + 1 };
  }
}

function query({ tailLines, since }: Amount): string {
  const asked = new URLSearchParams();
  if (tailLines !== undefined) asked.set('tail', String(tailLines));
  if (since !== undefined) asked.set('since', String(since));
  return asked.toString();
}

/** When the last line was written, or 0 for none; undefined: no daemon runs. */
async function printLog(beside: Beside, asked: string, terminal: Terminal): Promise<number | undefined> {
  const stream = await streamFromDaemon(beside.stateDir, beside.fetch, `/api/log?${asked}`);
  if (stream === undefined) return undefined;
  let lastAt = 0;
  for await (const data of stream) {
    const { at, line } = LOG_LINE.parse(parseJson(data));
    lastAt = at;
    terminal.out(`${terminal.color ? line : stripVTControlCharacters(line)}\n`);
  }
  return lastAt;
}
