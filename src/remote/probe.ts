/**
 * Is the remote alive? One exec, and shell builtins only while it lives. Anything that cannot be read plainly is an
 * error: unknown.
 */
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import type { RemoteProbe, Target } from './port.ts';
import { READ_RECORD } from './record.ts';
import type { ScriptRunner, Words } from './script.ts';

export async function probeRemote(scripts: ScriptRunner, target: Target, call: Call): Promise<RemoteProbe> {
  const values = { run: target.paths.run };
  return parseProbe(await scripts.run(target.sandboxId, { name: 'probe', values, body: PROBE }, call));
}

/** @throws DvoError `remote` for anything but the three answers */
export function parseProbe(words: Words): RemoteProbe {
  const [verb, launchId, number, ...more] = words;
  if (more.length === 0 && launchId !== undefined && number !== undefined && /^\d{1,10}$/.test(number)) {
    if (verb === 'running') return { kind: 'running', launchId, pid: Number(number) };
    if (verb === 'exited') return { kind: 'exited', launchId, exitCode: Number(number) };
  }
  if (verb === 'gone' && launchId === undefined) return { kind: 'gone' };
  throw new DvoError('remote', `probe: cannot understand ${JSON.stringify(words.join(' ').slice(0, 200))}`);
}

/**
 * The supervisor writes the exit code a moment after the process is gone. While it holds its lock that moment is still
 * to come, however slow the machine: "gone" would relaunch a remote whose session is over.
 */
const PROBE = `
${READ_RECORD}
[ -s "$run/boot-id" ] || finish gone
read -rn 999 boot < "$run/boot-id" || fail cannot-read-boot-marker
for _ in {1..500}; do
  alive && finish running "$r_launch" "$r_pid"
  [ -n "$r_launch" ] && [ "$r_boot" = "$boot" ] || finish gone
  ended && finish exited "$r_launch" "$e_code"
  if ! { exec 9<"$run/remote.lock"; } 2>/dev/null || flock -n 9; then
    # Nobody is left to write it. Unless that happened since the look before this one.
    ended && finish exited "$r_launch" "$e_code"
    finish gone
  fi
  pause
done
fail supervisor-does-not-end`;
