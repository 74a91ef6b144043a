/**
 * Shell text that finds a session's processes and signals them, and nobody else. Needs `state`, which stands in the
 * environment of the remote and so of all that it ever started, whoever their parent is by now.
 */
export const SESSION_PROCESSES = `
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
# Adds to \`seen\` what carries the session's state folder in its environment, and all that is below those or was so at
# an earlier look: some clean their environment, some outlive their parents. Start times are read before environments,
# so that a number that changes hands in between fits nobody.
collect() {
  local grown=1 file pid
  scan
  while IFS= read -r file; do
    pid=\${file#/proc/} pid=\${pid%/environ}
    [ -n "\${seen[$pid]:-}" ] || [ -z "\${start[$pid]:-}" ] || seen[$pid]=\${start[$pid]}
  done < <(grep -lsxzF -- "DEVIN_REMOTE_STATE_DIR=$state" /proc/[0-9]*/environ)
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
# Sends signal $1 (0: only asks) to every process seen that is still itself. False when there is none.
signal_all() {
  local pid found=1
  for pid in "\${!seen[@]}"; do
    same "$pid" "\${seen[$pid]}" && { kill -s "$1" "$pid" 2>/dev/null; found=0; }
  done
  return $found
}
# False when some live on. What is started while the others are being killed is found by the next look.
kill_all() {
  local round
  for (( round = 0; round < 20; round++ )); do
    collect
    signal_all KILL || return 0
    for _ in {1..20}; do signal_all 0 || break; pause; done
  done
  return 1
}`;
