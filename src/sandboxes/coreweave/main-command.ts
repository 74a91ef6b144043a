/**
 * The sandbox's main process, as text. Plain sh and coreutils, because the official image has little else.
 *
 * It marks the container's boot (a container that restarts in place gets a new marker), ends at once on TERM, reaps what
 * is orphaned, and repeats the session's log, so that the platform's log of the sandbox is the session's log.
 */
import type { SandboxPaths } from '../provider.ts';

/**
 * `run` is on the container's own disk, where a session's clean-up of /tmp does not reach. The main process creates it,
 * so it has to be root, as in the official image.
 */
export const COREWEAVE_PATHS: SandboxPaths = { volume: '/workspace', run: '/run/dvo' };

/**
 * Exit code 0 on TERM: anything else would make the platform start the container again. The wait is what reaps: a
 * shell that is process 1 collects every child that ends while it waits. `tail -F` survives the log's being cut or
 * replaced; should it be killed it is started again, from the end, so that nothing is repeated.
 */
const MAIN = `
set -u
umask 077
follower=
stop() { [ -z "$follower" ] || kill "$follower" 2>/dev/null; exit 0; }
trap stop TERM INT
mkdir -p "$run" || { echo "dvo: cannot make $run: the sandbox has to run as root"; exit 1; }
read -r boot < /proc/sys/kernel/random/uuid
printf '%s\\n' "$boot" > "$run/boot-id.new" && mv -f "$run/boot-id.new" "$run/boot-id" || exit 1
: >> "$run/session.log"
from=+1
while :; do
  tail -n "$from" -F "$run/session.log" 2>/dev/null &
  follower=$!
  wait "$follower"
  from=0
  sleep 1 &
  wait $!
done`;

/** argv of the sandbox's main process. */
export function mainCommand(paths: SandboxPaths): readonly string[] {
  return ['/bin/sh', '-c', `run=${paths.run}${MAIN}`];
}
