/** The scripts that make a shell ask dvo for what could come next. They know nothing of its commands. */

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** To be read by the shell at its start. Where dvo has nothing to offer, files are. */
export function completionScript(shell: Shell): string {
  return `${SCRIPTS[shell].join('\n')}\n`;
}

const SCRIPTS: Readonly<Record<Shell, readonly string[]>> = {
  bash: [
    '_dvo_complete() {',
    "  local IFS=$'\\n'",
    '  COMPREPLY=($(dvo __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))',
    // A session in dvo cp: its path comes right behind the colon.
    '  if [[ ${COMPREPLY[0]} == *: ]]; then compopt -o nospace; fi',
    '}',
    'complete -o default -F _dvo_complete dvo',
  ],
  zsh: [
    '_dvo_complete() {',
    '  local -a found',
    '  found=(${(f)"$(dvo __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})',
    '  if (( $#found == 0 )); then _files',
    "  elif [[ $found[1] == *: ]]; then compadd -S '' -- $found",
    '  else compadd -- $found; fi',
    '}',
    'compdef _dvo_complete dvo',
  ],
  fish: [
    'function __dvo_complete',
    '  set -l words (commandline -opc) (commandline -ct)',
    '  dvo __complete -- $words[2..] 2>/dev/null',
    'end',
    "complete -c dvo -f -a '(__dvo_complete)'",
    "complete -c dvo -n '__fish_seen_subcommand_from cp' -F",
  ],
};
