/**
 * Launching devin-remote: detached, once, in a clean environment.
 *
 * Single: a supervisor holds a lock for life, taken before any side effect; and whoever is recorded as alive is adopted
 * even when his supervisor was killed and the lock is free.
 * Clean: the remote's environment is built from nothing by a shell of its own; token and gateway come by a pipe and
 * never stand in an argument or a file. It inherits no descriptor but three, and no ignored signal.
 */
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import type { Places } from './places.ts';
import type { LaunchReport, LaunchRequest, Target } from './port.ts';
import { READ_RECORD } from './record.ts';
import type { ScriptRunner } from './script.ts';

export interface LaunchOptions {
  readonly scripts: ScriptRunner;
  readonly user: string | undefined;
  readonly chromePath: string | undefined;
  readonly desktop: boolean;
}

export async function launchRemote(
  options: LaunchOptions,
  target: Target,
  places: Places,
  request: LaunchRequest,
  call: Call,
): Promise<LaunchReport> {
  const token = request.connectToken.reveal();
  for (const line of [token, request.gatewayUrl]) {
    if (line.includes('\n')) throw new DvoError('remote', 'launch: token or gateway URL holds a line end');
  }
  const values = {
    volume: target.paths.volume,
    run: target.paths.run,
    workdir: places.workdir,
    home: places.home,
    state: places.state,
    user: options.user ?? '',
    chrome: options.chromePath ?? '',
    desktop: options.desktop ? 'true' : '',
    session: request.sessionId,
    launch: request.launchId,
    sha: request.sha,
    supervisor: SUPERVISOR,
    remote: REMOTE,
  };
  const stdin = `${token}\n${request.gatewayUrl}\n`;
  const words = await options.scripts.run(
    target.sandboxId,
    { name: 'launch', values, body: LAUNCH, stdin },
    call,
  );
  const [verb, launchId, pid] = words;
  if (launchId === undefined || pid === undefined || !/^\d+$/.test(pid)) {
    throw new DvoError('remote', `launch: cannot understand ${words.join(' ')}`);
  }
  return { launchId, pid: Number(pid), adopted: verb === 'adopted' };
}

const LAUNCH = `
IFS= read -r token || fail no-token
IFS= read -r gateway || fail no-gateway
read -rn 999 boot < "$run/boot-id" || fail no-boot-marker
${READ_RECORD}
bin="$volume/.dvo/bin/$sha/devin-remote"
[ -x "$bin" ] || fail no-binary
exec 9>"$run/remote.lock" || fail cannot-open-lock
looks=0
until flock -n 9; do
  # A supervisor holds it: its remote lives, or is about to be recorded, or has just ended and is being written down.
  for _ in {1..10}; do alive && finish adopted "$r_launch" "$r_pid"; pause; done
  (( ++looks < 50 )) || fail locked-without-a-remote
done
alive && finish adopted "$r_launch" "$r_pid"
[ -e "$run/remote" ] || [ -e "$run/exit" ] && rm -f -- "$run/remote" "$run/exit"
export volume run workdir home state user chrome desktop session launch bin boot remote
# Job control for this one line: without it a shell starts background commands with SIGINT and SIGQUIT ignored, all that
# the remote ever starts would inherit that, and nobody could interrupt a command in the session.
set -m
setsid bash -c "$supervisor" dvo-supervisor 8>&- < <(printf '%s\\n%s\\n' "$token" "$gateway") >/dev/null 2>&1 &
set +m
exec 9>&-
for _ in {1..500}; do
  alive && [ "$r_launch" = "$launch" ] && finish launched "$r_launch" "$r_pid"
  # Over already: how, the next probe tells.
  [ "$r_launch" = "$launch" ] && ended && finish launched "$r_launch" "$r_pid"
  [ -z "$r_launch" ] && [ -s "$run/exit" ] && fail not-recorded
  pause
done
fail did-not-start`;

/**
 * Holds the lock (descriptor 9), reaps the remote and writes down how it ended. A second process keeps the log within
 * its limit by cutting the file that the remote appends to; should it die, the log grows, and nothing else happens.
 */
const SUPERVISOR = `
umask 077
for fd in /proc/$$/fd/*; do
  case "\${fd##*/}" in [0129]) ;; *) eval "exec \${fd##*/}>&-" ;; esac
done
: >> "$run/session.log"
[ -n "$user" ] && chown "$user" "$run/session.log"
set -m
env -i volume="$volume" run="$run" workdir="$workdir" home="$home" state="$state" user="$user" chrome="$chrome" \\
  desktop="$desktop" session="$session" launch="$launch" bin="$bin" boot="$boot" path="$PATH" tmp="\${TMPDIR:-/tmp}" \\
  lang="\${LANG:-C.UTF-8}" zone="\${TZ:-}" name="\${user:-\${USER:-root}}" \\
  display="\${DISPLAY:-}" wayland="\${WAYLAND_DISPLAY:-}" xauthority="\${XAUTHORITY:-}" \\
  /bin/sh -c "$remote" dvo-remote <&0 9>&- >> "$run/session.log" 2>&1 &
pid=$!
# With job control a stopped child would pass for an ended one.
set +m
exec </dev/null
(
  exec 9>&-
  while kill -0 "$pid" 2>/dev/null; do
    read -rt 5 <> <(:) || :
    size=$(wc -c < "$run/session.log" 2>/dev/null || echo 0)
    if [ "$size" -gt 5000000 ]; then
      tail -c 1000000 "$run/session.log" > "$run/session.log.1"
      : > "$run/session.log"
    fi
  done
) &
capper=$!
wait "$pid"
code=$?
kill "$capper" 2>/dev/null
printf '%s %s\\n' "$launch" "$code" > "$run/exit.new" && mv -f "$run/exit.new" "$run/exit"`;

/** Becomes the remote: writes its own record, then leaves nothing in its environment but what the contract lists. */
const REMOTE = `
IFS= read -r token && IFS= read -r gateway || exit 72
exec < /dev/null
read -r stat < /proc/$$/stat
set -- \${stat##*) }
printf '%s %s %s %s\\n' "$launch" "$$" "\${20}" "$boot" > "$run/remote.new" && mv -f "$run/remote.new" "$run/remote" || exit 70
cd "$workdir" || exit 71
export PATH="$path" HOME="$home" TMPDIR="$tmp" LANG="$lang"
[ -n "$zone" ] && export TZ="$zone"
export USER="$name" LOGNAME="$name"
export DEVIN_OUTPOST_GATEWAY_URL="$gateway" DEVIN_OUTPOST_CONNECT_TOKEN="$token" DEVIN_OUTPOST_SESSION_ID="$session"
export DEVIN_REMOTE_STATE_DIR="$state"
[ -n "$chrome" ] && export DEVIN_CHROME_PATH="$chrome"
[ -n "$desktop" ] && export DEVIN_OUTPOST_DESKTOP="$desktop"
[ -n "$display" ] && export DISPLAY="$display"
[ -n "$wayland" ] && export WAYLAND_DISPLAY="$wayland"
[ -n "$xauthority" ] && export XAUTHORITY="$xauthority"
umask 022
set -- "$bin" serve
if [ -n "$user" ]; then
  group=$(id -g -- "$user") || exit 73
  set -- setpriv --reuid="$user" --regid="$group" --init-groups -- "$@"
fi
# Where sh is bash it adds two names of its own.
[ -n "\${BASH_VERSION:-}" ] && set -- env -u _ -- "$@"
unset volume run workdir home state user chrome desktop session launch bin boot path tmp lang zone name group stat
unset display wayland xauthority PWD OLDPWD SHLVL
exec "$@"`;
