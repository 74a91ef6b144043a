/**
 * Stopping the remote of one launch, with everything it started: TERM, a grace, KILL, and a sync so that an archive
 * sees what was written. What a remote that has ended by itself left behind is ended too: it would write on while the
 * archive is made. Each process is verified by its start time right before it is signalled.
 */
import type { Call } from '../lib/deadline.ts';
import { stateIn } from './places.ts';
import type { Target } from './port.ts';
import { SESSION_PROCESSES } from './processes.ts';
import { READ_RECORD } from './record.ts';
import type { ScriptRunner } from './script.ts';

/** Longest that a remote may take to end by itself. */
const GRACE_SECONDS = 10;
/** The same for what it started; interactive shells ignore TERM, so that this is often waited out. */
const REST_GRACE_SECONDS = 1;

export async function stopRemote(
  scripts: ScriptRunner,
  target: Target,
  launchId: string | undefined,
  call: Call,
): Promise<void> {
  const { run, volume } = target.paths;
  const values = { run, volume, state: stateIn(target.paths), wanted: launchId ?? '' };
  await scripts.run(target.sandboxId, { name: 'stop', values, body: STOP }, call);
}

const STOP = `
${READ_RECORD}
${SESSION_PROCESSES}
flush() { sync -f "$volume" 2>/dev/null || sync; }
[ -s "$run/boot-id" ] || { flush; finish none; }
read -rn 999 boot < "$run/boot-id" || fail cannot-read-boot-marker
alive
[ -n "$r_launch" ] && [ "$r_boot" = "$boot" ] || { flush; finish none; }
[ -z "$wanted" ] || [ "$wanted" = "$r_launch" ] || finish another
collect
if alive; then
  seen[$r_pid]=$r_start
  kill -s TERM "$r_pid" 2>/dev/null
  for (( look = 0; look < ${GRACE_SECONDS} * 100; look++ )); do alive || break; pause; done
  collect
fi
if signal_all TERM; then
  for (( look = 0; look < ${REST_GRACE_SECONDS} * 100; look++ )); do signal_all 0 || break; pause; done
fi
kill_all || fail still-running
flush
finish stopped`;
