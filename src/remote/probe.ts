/** Is the remote alive? One exec, shell builtins only. Anything that cannot be read plainly is an error: unknown. */
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

/** The supervisor writes the exit code a moment after the process is gone, so that moment is waited for. */
const PROBE = `
${READ_RECORD}
{ read -r boot < "$run/boot-id"; } 2>/dev/null || finish gone
for _ in {1..50}; do
  alive && finish running "$r_launch" "$r_pid"
  [ -n "$r_launch" ] && [ "$r_boot" = "$boot" ] || finish gone
  e_launch= e_code=
  if { read -r e_launch e_code < "$run/exit"; } 2>/dev/null && [ "$e_launch" = "$r_launch" ]; then
    finish exited "$e_launch" "$e_code"
  fi
  pause
done
finish gone`;
