/**
 * Making a sandbox ready: marker, directories, tools, verified binary, in one exec when all is there. The marker comes
 * first, so that a sandbox without one certainly holds nothing.
 */
import type { Call } from '../lib/deadline.ts';
import type { BinaryCache } from './binary-cache.ts';
import { LARGEST_MARKER_BYTES } from './marker.ts';
import type { Places } from './places.ts';
import type { Marker, PrepareReport, PrepareRequest, Target } from './port.ts';
import { SESSION_PROCESSES } from './processes.ts';
import { PAUSE } from './record.ts';
import type { ScriptRunner } from './script.ts';

/** auto: the sandbox downloads; when it cannot, the daemon uploads. */
export type Delivery = 'auto' | 'download' | 'upload';

export interface PrepareOptions {
  readonly scripts: ScriptRunner;
  readonly cache: BinaryCache;
  readonly delivery: Delivery;
  /** Owner of the directories, when the remote runs as another user. */
  readonly user: string | undefined;
}

export async function prepareSandbox(
  options: PrepareOptions,
  target: Target,
  places: Places,
  request: PrepareRequest,
  call: Call,
): Promise<PrepareReport> {
  const { scripts, cache, delivery, user } = options;
  const { binary, marker, replaces } = request;
  const values = {
    volume: target.paths.volume,
    run: target.paths.run,
    workdir: places.workdir,
    home: places.home,
    state: places.state,
    user: user ?? '',
    marker: JSON.stringify(marker),
    here: field('sandboxId', target.sandboxId),
    ours: field('acceptorId', marker.acceptorId),
    replaces: field('acceptorId', replaces ?? marker.acceptorId),
    sandbox: target.sandboxId,
    sha: binary.sha,
    sum: binary.sha256,
    url: binary.url,
    delivery,
  };
  const [verb, ...notes] = await scripts.run(
    target.sandboxId,
    { name: 'prepare', values, body: PREPARE },
    call,
  );
  if (verb === 'condemned' || verb === 'foreign') return { kind: verb };
  if (verb !== 'upload') return { kind: 'prepared', downloaded: verb === 'downloaded', notes };
  const part = `${target.paths.volume}/.dvo/bin/${binary.sha}/uploaded.part`;
  await cache.upload(target.sandboxId, binary, part, call);
  const body = INSTALL_UPLOADED;
  await scripts.run(target.sandboxId, { name: 'install', values: { ...values, part }, body }, call);
  return { kind: 'prepared', downloaded: true, notes: [...notes, 'uploaded'] };
}

/** A marker's field as it stands in the file, where the script looks for it. */
function field(name: keyof Marker, value: string): string {
  return JSON.stringify({ [name]: value }).slice(1, -1);
}

const VERIFY = `
bin="$volume/.dvo/bin/$sha/devin-remote"
digest() {
  local out
  if command -v sha256sum >/dev/null; then out=$(sha256sum -- "$1")
  elif command -v shasum >/dev/null; then out=$(shasum -a 256 -- "$1")
  elif command -v openssl >/dev/null; then out=$(openssl dgst -sha256 -r "$1")
  elif command -v python3 >/dev/null; then
    out=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1")
  else fail no-sha256-tool; fi
  printf -v "$2" '%s' "\${out%% *}"
}
matches() { local sum_of_file=; [ -f "$1" ] && digest "$1" sum_of_file && [ "$sum_of_file" = "$sum" ]; }
# Only what matches gets the final name, and only under the final name can it run.
install_from() {
  matches "$1" || { rm -f -- "$1"; fail checksum-mismatch; }
  chmod 0755 "$1" && mv -f -- "$1" "$bin" || fail cannot-install
}`;

const APT_SECONDS = 120;

const PREPARE = `
notes=()
# Empty directories are nobody's work; the marker comes before anything else. A script that was asked for long ago must
# not take back what another daemon has taken over meanwhile.
mkdir -p "$run" "$volume/.dvo/bin/$sha" "$workdir/repos" "$home" "$state" || fail cannot-make-directories
# The session can write to these files: no more is read than can be right. A variable holds no zero bytes.
first() { [ -f "$1" ] && head -c "$2" -- "$1" | tr '\\0' '?'; }
present=$(first "$volume/.dvo/session.json" ${LARGEST_MARKER_BYTES + 1})
if [ "$present" != "$marker" ]; then
  # One that is damaged names nobody.
  case $present in
    *"$ours"* | *"$replaces"*) ;;
    *"$here"*'}') finish foreign ;;
  esac
  printf '%s' "$marker" > "$volume/.dvo/session.json.new" && mv -f "$volume/.dvo/session.json.new" "$volume/.dvo/session.json" || fail cannot-write-marker
fi
condemned=$(first "$volume/.dvo/condemned" 999)
[ "$condemned" = "$sandbox" ] && finish condemned
if [ ! -s "$run/boot-id" ]; then
  # The main process writes it when the container starts, and may be about to.
  ${PAUSE}
  for _ in {1..300}; do [ -s "$run/boot-id" ] && break; pause; done
fi
if [ ! -s "$run/boot-id" ]; then
  # Removed, and the lock and the record with it: a remote that outlived them is known to nobody any more, and would get
  # a twin.
  ${SESSION_PROCESSES}
  collect
  if signal_all 0; then kill_all || fail lost-remote-lives-on; notes+=(lost-remote-ended); fi
  read -r boot < /proc/sys/kernel/random/uuid &&
    printf '%s\\n' "$boot" > "$run/boot-id.new" && mv -f "$run/boot-id.new" "$run/boot-id" || fail cannot-write-boot-marker
fi
missing=
command -v git >/dev/null || missing="$missing git"
command -v curl >/dev/null || command -v wget >/dev/null || missing="$missing curl"
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || missing="$missing ca-certificates"
if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # Where nothing can be reached apt tries for long, and the remote may do without.
    if timeout -k 5 ${APT_SECONDS} bash -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@"' apt $missing </dev/null >&2
    then
      for tool in $missing; do notes+=("installed-$tool"); done
    else notes+=(apt-failed); fi
  else for tool in $missing; do notes+=("missing-$tool"); done; fi
fi
${VERIFY}
if [ -n "$user" ]; then
  id -u -- "$user" >/dev/null || fail no-such-user
  command -v setpriv >/dev/null || fail no-setpriv
  # The folder with marker and builds stays ours; it can only be passed through.
  chown -- "$user:" "$volume" "$workdir" "$workdir/repos" "$home" "$state" || fail cannot-give-directories
  chmod 0711 "$volume/.dvo" "$volume/.dvo/bin" "$volume/.dvo/bin/$sha" || fail cannot-open-directories
fi
for old in "$volume"/.dvo/bin/*; do
  [ "$old" = "$volume/.dvo/bin/$sha" ] || { rm -rf -- "$old"; notes+=(old-build-removed); }
done
# What an attempt that was cut off left behind would go into every archive.
for old in "$volume/.dvo/bin/$sha"/*.part; do [ ! -e "$old" ] || rm -f -- "$old"; done
if matches "$bin"; then finish cached "\${notes[@]}"; fi
[ "$delivery" = upload ] && finish upload "\${notes[@]}"
part="$bin.$$.part"
if command -v curl >/dev/null; then curl -fsSL --connect-timeout 10 --speed-limit 1000 --speed-time 20 --retry 2 -o "$part" -- "$url" </dev/null
elif command -v wget >/dev/null; then wget -q -T 10 -t 3 -O "$part" -- "$url" </dev/null
else false; fi || {
  rm -f -- "$part"
  [ "$delivery" = auto ] && finish upload "\${notes[@]}" download-failed
  fail download-failed
}
install_from "$part"
finish downloaded "\${notes[@]}"`;

const INSTALL_UPLOADED = `${VERIFY}
install_from "$part"
finish installed`;
