/** Shell text: waiting a moment, without a process for it. */
export const PAUSE = `
# A pipe that nobody writes to.
exec 8<> <(:)
pause() { read -rt 0.01 -u 8 || :; }`;

/**
 * Shell text that reads the launch's record and tells whether its process lives. The record is `launch pid start boot`.
 * A pid alone means nothing: start time and boot marker must agree, and a zombie is dead. Whoever works in the sandbox can
 * write to these files, and the daemon keeps what it is told of a launch, so no more is read than a record can be long.
 */
export const READ_RECORD = `${PAUSE}
r_launch= r_pid= r_start= r_boot=
alive() {
  local stat
  r_launch= r_pid= r_start= r_boot=
  { read -rn 999 r_launch r_pid r_start r_boot < "$run/remote"; } 2>/dev/null || return 1
  [ "$r_boot" = "$boot" ] && [[ $r_pid =~ ^[0-9]+$ ]] || return 1
  { read -r stat < "/proc/$r_pid/stat"; } 2>/dev/null || return 1
  set -- \${stat##*) }
  [ "$1" != Z ] && [ "$1" != X ] && [ "\${20}" = "$r_start" ]
}
# How the recorded launch ended, as its supervisor wrote it down.
e_code=
ended() {
  local e_launch=
  e_code=
  { read -rn 999 e_launch e_code < "$run/exit"; } 2>/dev/null && [ "$e_launch" = "$r_launch" ]
}`;
