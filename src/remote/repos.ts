/**
 * Cloning repositories beforehand. The token comes in by standard input, lives in the environment of the git processes
 * only, and is given by an askpass helper that holds no secret itself; neither URL, argv nor .git ever hold it.
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
}

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
    .map((repo) => `clone ${quote(repoUrl(repo))} ${quote(repoFolder(repo))}`)
    .join('\n');
  const values = {
    run: target.paths.run,
    workdir: places.workdir,
    home: places.home,
    username: options.gitUsername,
  };
  const stdin = `${options.gitToken?.().reveal() ?? ''}\n`;
  const body = `${CLONE}\n${list}\nrm -rf -- "$help"\nfinish done "\${notes[@]}"`;
  const [, ...notes] = await scripts.run(target.sandboxId, { name: 'clone', values, body, stdin }, call);
  return notes;
}

function repoUrl(repo: string): string {
  return /^https?:\/\//.test(repo) ? repo : `https://github.com/${repo}.git`;
}

/** `repos/app` for org/app: where Devin looks for it. */
function repoFolder(repo: string): string {
  const last = repo.replace(/\/+$/, '').split('/').at(-1) ?? repo;
  return last.replace(/\.git$/, '');
}

const CLONE = `
notes=()
IFS= read -r token || token=
export HOME="$home" GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1
help=$(mktemp -d "$run/askpass.XXXXXX") || fail cannot-make-askpass
printf '#!/bin/sh\\ncase "$1" in Username*) printf %%s "$DVO_GIT_USERNAME";; *) printf %%s "$DVO_GIT_TOKEN";; esac\\n' > "$help/askpass"
chmod 0700 "$help/askpass"
clone() {
  local url=$1 name=$2 into="$workdir/repos/$2"
  [ -e "$into" ] && { notes+=("present-$name"); return; }
  rm -rf -- "$into.part"
  if DVO_GIT_USERNAME="$username" DVO_GIT_TOKEN="$token" GIT_ASKPASS="$help/askpass" \\
    git -c credential.helper= clone --quiet -- "$url" "$into.part" </dev/null >&2 && mv -- "$into.part" "$into"
  then notes+=("cloned-$name")
  else rm -rf -- "$into.part"; notes+=("clone-failed-$name"); fi
}`;
