/** The configuration for commands that look at what a daemon does: no log of their own, trouble goes to the caller. */
import { readFileSync } from 'node:fs';
import { loadConfig, loadDaemonPlace, type Config, type DaemonPlace } from '../config/config.ts';
import type { ConfigSources } from '../config/reader.ts';
import type { Redactor } from '../lib/secret.ts';
import type { Terminal } from './terminal.ts';

/** @throws DvoError `config` */
export function readConfig(terminal: Terminal, redactor: Redactor): Config {
  return loadConfig(sourcesOf(terminal, redactor));
}

/** For what asks the daemon only: its STATE_DIR is enough. @throws DvoError `config` */
export function readPlace(terminal: Terminal, redactor: Redactor): DaemonPlace {
  return loadDaemonPlace(sourcesOf(terminal, redactor));
}

function sourcesOf(terminal: Terminal, redactor: Redactor): ConfigSources {
  return {
    env: terminal.env,
    files: { read: (path) => readFileSync(path, 'utf8') },
    redactor,
    terminal: terminal.interactive,
    onSecretTrouble: (variable, why) => terminal.err(`dvo: ${variable}_FILE: ${why}\n`),
  };
}
