/** The configuration as a command reads it: from the terminal's environment, and from files of secrets. */
import { readFileSync } from 'node:fs';
import {
  examineConfig,
  loadConfig,
  loadDaemonPlace,
  type Config,
  type DaemonPlace,
} from '../config/config.ts';
import type { ConfigSources } from '../config/reader.ts';
import type { Redactor } from '../lib/secret.ts';
import type { Terminal } from './terminal.ts';

type Surroundings = Pick<Terminal, 'env' | 'interactive'>;

/** @throws DvoError `config` */
export function readConfig(
  surroundings: Surroundings,
  redactor: Redactor,
  onSecretTrouble: ConfigSources['onSecretTrouble'],
): Config {
  return loadConfig(sourcesOf(surroundings, redactor, onSecretTrouble));
}

/** For what looks at the configuration itself. Trouble with a secret's file is among the problems. */
export function examine(surroundings: Surroundings, redactor: Redactor): ReturnType<typeof examineConfig> {
  return examineConfig(sourcesOf(surroundings, redactor, () => undefined));
}

/** For what asks the daemon only: its STATE_DIR is enough. @throws DvoError `config` */
export function readPlace(terminal: Terminal, redactor: Redactor): DaemonPlace {
  return loadDaemonPlace(sourcesOf(terminal, redactor, tellOn(terminal)));
}

/** Trouble with a secret's file goes to standard error: such a command has no log. */
export function tellOn(terminal: Terminal): ConfigSources['onSecretTrouble'] {
  return (variable, why) => terminal.err(`dvo: ${variable}_FILE: ${why}\n`);
}

function sourcesOf(
  { env, interactive }: Surroundings,
  redactor: Redactor,
  onSecretTrouble: ConfigSources['onSecretTrouble'],
): ConfigSources {
  const read = (path: string): string => readFileSync(path, 'utf8');
  return { env, files: { read }, redactor, terminal: interactive, onSecretTrouble };
}
