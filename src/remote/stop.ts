/**
 * Stopping the remote of one launch, with everything it started: TERM, a grace, KILL, and a sync so that an archive
 * sees what was written. Each process is verified by its start time right before it is signalled.
 */
import type { Call } from '../lib/deadline.ts';
import type { Target } from './port.ts';
import { READ_RECORD } from './record.ts';
import type { ScriptRunner } from './script.ts';

/** Longest that a remote may take to end by itself. */
const GRACE_SECONDS = 10;

export async function stopRemote(
  scripts: ScriptRunner,
  target: Target,
  launchId: string | undefined,
  call: Call,
): Promise<void> {
  const values = { run: target.paths.run, volume: target.paths.volume, wanted: launchId ?? '' };
  await scripts.run(target.sandboxId, { name: 'stop', values, body: STOP }, call);
}

const STOP = `
${READ_RECORD}
{ read -r boot < "$run/boot-id"; } 2>/dev/null || finish none
alive || { sync -f "$volume" 2>/dev/null; finish none; }
[ -z "$wanted" ] || [ "$wanted" = "$r_launch" ] || finish another
declare -A parent start seen
scan() {
  local file stat pid
  parent=() start=()
  for file in /proc/[0-9]*/stat; do
    { read -r stat < "$file"; } 2>/dev/null || continue
    pid=\${stat%% *}
    set -- \${stat##*) }
    [ "$1" = Z ] || { parent[$pid]=$2; start[$pid]=\${20}; }
  done
}
# Everything below the remote, now and at any earlier look: children outlive their parents.
collect() {
  local grown=1 pid
  scan
  seen[$r_pid]=$r_start
  while [ "$grown" = 1 ]; do
    grown=0
    for pid in "\${!parent[@]}"; do
      [ -n "\${seen[$pid]:-}" ] || [ -z "\${seen[\${parent[$pid]}]:-}" ] || { seen[$pid]=\${start[$pid]}; grown=1; }
    done
  done
}
same() {
  local stat
  { read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
  set -- "$2" \${stat##*) }
  [ "$2" != Z ] && [ "\${21}" = "$1" ]
}
collect
same "$r_pid" "$r_start" && kill -TERM "$r_pid" 2>/dev/null
for (( look = 0; look < ${GRACE_SECONDS} * 100; look++ )); do alive || break; pause; done
collect
for _ in {1..200}; do
  left=0
  for pid in "\${!seen[@]}"; do
    if same "$pid" "\${seen[$pid]}"; then kill -KILL "$pid" 2>/dev/null; left=1; fi
  done
  [ "$left" = 0 ] && break
  pause
done
[ "$left" = 0 ] || fail still-running
sync -f "$volume" 2>/dev/null || sync
finish stopped`;
