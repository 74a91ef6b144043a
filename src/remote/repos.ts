/**
 * Cloning repositories beforehand. The token comes in by standard input, lives in the environment of the git processes
 * only, and is given by an askpass helper that holds no secret itself; neither URL, argv nor .git ever hold it. The
 * helper answers to the repository's own host alone, and git reads no setting that an earlier session left in its HOME.
 * A clone that fails is a note, not a failure: Devin clones what is missing.
 */
import type { Call } from '../lib/deadline.ts';
import type { Secret } from '../lib/secret.ts';
import type { Places } from './places.ts';
import type { Target } from './port.ts';
import { quote } from './quote.ts';
import type { ScriptRunner } from './script.ts';

export interface RepoOptions {
  readonly repos: readonly string[];
  readonly gitUsername: string;
  readonly gitToken: (() => Secret) | undefined;
  /** Owner of the clones, when the remote runs as another user. */
  readonly user: string | undefined;
}

/** The share of the call that clones may use up: a slow one must not cost the session its sandbox. */
const SHARE_OF_CALL = 0.8;

/** What was cloned or could not be, in words. */
export async function cloneRepos(
  scripts: ScriptRunner,
  options: RepoOptions,
  target: Target,
  places: Places,
  call: Call,
): Promise<readonly string[]> {
  if (options.repos.length === 0) return [];
  const list = options.repos
    .map(repoUrl)
    .map((url) => `clone ${quote(url)} ${quote(repoFolder(url))} ${quote(hostOf(url))}`)
    .join('\n');
  const values = {
    run: target.paths.run,
    workdir: places.workdir,
    user: options.user ?? '',
    username: options.gitUsername,
    seconds: String(Math.floor((call.timeoutMs * SHARE_OF_CALL) / 1_000)),
  };
  const stdin = `${options.gitToken?.().reveal() ?? ''}\n`;
  const body = `${CLONE}\n${list}\nfinish done "\${notes[@]}"`;
  const [, ...notes] = await scripts.run(target.sandboxId, { name: 'clone', values, body, stdin }, call);
  return notes;
}

function repoUrl(repo: string): string {
  return /^https?:\/\//.test(repo) ? repo : `https://github.com/${repo}.git`;
}

/** As git writes it in its prompts: with the port, if the URL names one. */
function hostOf(url: string): string {
  return /^https?:\/\/([^/]*)/.exec(url)?.[1] ?? '';
}

/** `repos/app` for org/app: where Devin looks for it. */
function repoFolder(repo: string): string {
  const last = repo.replace(/\/+$/, '').split('/').at(-1) ?? repo;
  return last.replace(/\.git$/, '');
}

const CLONE = `
notes=()
IFS= read -r token || token=
help=$(mktemp -d "$run/askpass.XXXXXX") || fail cannot-make-askpass
trap 'rm -rf -- "$help"' EXIT
cat > "$help/askpass" <<'END' && chmod 0700 "$help/askpass" || fail cannot-make-askpass
#!/bin/sh
case "$1" in
  "Username for '$DVO_GIT_SCHEME://$DVO_GIT_HOST'"*) printf %s "$DVO_GIT_USERNAME" ;;
  "Password for '$DVO_GIT_SCHEME://"*"@$DVO_GIT_HOST'"*) printf %s "$DVO_GIT_TOKEN" ;;
  *) exit 1 ;;
esac
END
export HOME="$help" XDG_CONFIG_HOME="$help" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 LC_ALL=C
umask 022
clone() {
  local url=$1 name=$2 into="$workdir/repos/$2"
  [ -e "$into" ] && { notes+=("present-$name"); return; }
  rm -rf -- "$into.part"
  # With no time left it is not begun: 0 would mean no limit.
  if (( SECONDS < seconds )) &&
    DVO_GIT_SCHEME="\${url%%:*}" DVO_GIT_HOST="$3" DVO_GIT_USERNAME="$username" DVO_GIT_TOKEN="$token" GIT_ASKPASS="$help/askpass" \\
    timeout -k 5 "$(( seconds - SECONDS ))" git -c credential.helper= clone --quiet -- "$url" "$into.part" </dev/null >&2 &&
    { [ -z "$user" ] || chown -R -- "$user:" "$into.part"; } && mv -- "$into.part" "$into"
  then notes+=("cloned-$name")
  else rm -rf -- "$into.part"; notes+=("clone-failed-$name"); fi
}`;
