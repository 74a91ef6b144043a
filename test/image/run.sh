#!/usr/bin/env bash
# Runs the image's own commands without a container engine: a clean folder with what .dockerignore lets in, an
# unprivileged user, build, prune, start as PID 1 of a PID namespace, SIGTERM. Needs root (to become that user).
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
node="$root/node_modules/node/bin"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 0755 "$work"
app=$work/app state=$work/state
mkdir -p "$app" "$state"

while read -r line; do
  case $line in !*) cp -r "$root/${line#!}" "$app/" ;; esac
done < "$root/.dockerignore"
chown -R 10001:10001 "$app" "$state"

# A registry behind a certificate authority of one's own is reached as the caller reaches it.
ca=$(npm config get cafile)
[ "$ca" = null ] && ca=
as_dvo() { setpriv --reuid=10001 --regid=10001 --clear-groups -- env -i HOME="$work/state" PATH="$node:/usr/local/bin:/usr/bin:/bin" ${ca:+npm_config_cafile="$ca"} "$@"; }

# The very commands of the Dockerfile.
cd "$app"
grep -oE '^RUN (npm (ci|run build|prune)[^\\]*)$' "$root/Dockerfile" | sed 's/^RUN //' > "$work/commands"
test "$(wc -l < "$work/commands")" = 3
mkdir -p "$state/.npm" && chown -R 10001:10001 "$state"
while read -r command; do
  echo "== $command"
  as_dvo bash -c "$command" < /dev/null
done < "$work/commands"
test ! -d node_modules/typescript

echo '== dvo'
mkdir "$work/bin"
sed -n "/^COPY .*<<'EOF' \/usr\/local\/bin\/dvo$/,/^EOF$/p" "$root/Dockerfile" | sed -e '1d;$d' -e "s#/app/#$app/#" > "$work/bin/dvo"
chmod 0755 "$work/bin" "$work/bin/dvo"
grep -qxF 'ENTRYPOINT ["dvo"]' "$root/Dockerfile"
test "$(as_dvo "$work/bin/dvo" --version)" = "$("$node/node" -p 'require("./package.json").version')"
# An option that Node knows too reaches dvo.
as_dvo "$work/bin/dvo" connect --env-file /nowhere/.env > "$work/connect" 2>&1 && exit 1
grep -q '/nowhere/.env cannot be written' "$work/connect" || { cat "$work/connect"; exit 1; }

echo '== start as PID 1, SIGTERM'
mkfifo "$work/done"
as=(setpriv --reuid=10001 --regid=10001 --clear-groups --)
env -i PATH="$PATH" unshare --pid --fork --kill-child --mount-proc "${as[@]}" env -i \
  STATE_DIR="$state/dvo" SANDBOX_PROVIDER=local DEVIN_API_URL=http://127.0.0.1:9 OUTPOST_ID=o DEVIN_OUTPOSTS_TOKEN=cog_0123456789 \
  OPS_PORT=0 LOG_FORMAT=json PATH="$node:/usr/bin:/bin" "$work/bin/dvo" run > "$work/log" 2>&1 &
outer=$!
for _ in {1..100}; do grep -q '"msg":"started"' "$work/log" && break; sleep 0.1; done
grep -q '"msg":"started"' "$work/log" || { cat "$work/log"; exit 1; }
inner=$(pgrep -P "$outer")
test "$(grep NSpid "/proc/$inner/status" | awk '{print $NF}')" = 1
test "$(stat -c %u "/proc/$inner")" = 10001
kill -TERM "$inner"
wait "$outer"
grep -q '"msg":"stopped"' "$work/log"
echo 'ok: PID 1, user 10001, stopped by SIGTERM with exit code 0'
