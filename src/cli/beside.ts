/** What the commands beside a daemon have in common: its place, the way to ask it, its sandboxes, and how they fail. */
import type { Config } from '../config/config.ts';
import { systemClock, systemRandom } from '../lib/clock.ts';
import { DvoError } from '../lib/errors.ts';
import type { Fetch } from '../lib/fetch.ts';
import { Redactor } from '../lib/secret.ts';
import type { StatusView } from '../ops/view.ts';
import { createHttp } from '../outposts/http.ts';
import type { AttachableProvider } from '../sandboxes/provider.ts';
import { openQuietProvider } from './quiet-provider.ts';
import { readConfig, readPlace, tellOn } from './read-config.ts';
import { findStatus } from './status/find-status.ts';
import { EXIT, searchPath, type ExitCode, type Terminal } from './terminal.ts';

export interface Beside {
  readonly stateDir: string;
  readonly redactor: Redactor;
  readonly fetch: Fetch;
  /** @throws DvoError `state`, `deadline` */
  readonly look: () => Promise<StatusView>;
}

/** Every question has its own limit, and a log that is followed has none. */
const NO_LIMIT = 0;

/**
 * `opened` closes it.
 * @throws DvoError `config`
 */
export function openBeside(terminal: Terminal, opened: AsyncDisposableStack): Beside {
  const redactor = new Redactor();
  const place = readPlace(terminal, redactor);
  const http = createHttp({ bodyTimeoutMs: NO_LIMIT });
  opened.defer(() => http.close());
  const { fetch } = http;
  const look = () => findStatus(place, fetch, (text) => redactor.scrub(text));
  return { stateDir: place.stateDir, redactor, fetch, look };
}

/**
 * The sandboxes themselves, for which the whole configuration is needed. `opened` closes them.
 * @throws DvoError `config`
 */
export async function openSandboxes(
  terminal: Terminal,
  redactor: Redactor,
  opened: AsyncDisposableStack,
): Promise<{ readonly config: Config; readonly provider: AttachableProvider }> {
  const config = readConfig(terminal, redactor, tellOn(terminal));
  const provider = await openQuietProvider({
    config,
    redactor,
    clock: systemClock,
    random: systemRandom,
    path: searchPath(terminal),
  });
  opened.defer(() => provider.close());
  return { config, provider };
}

/** Says why a command failed, and answers its exit code. What is no DvoError is a fault of dvo, and thrown on. */
export function failed(error: unknown, terminal: Terminal): ExitCode {
  if (!(error instanceof DvoError)) throw error;
  terminal.err(`dvo: ${error.message}\n`);
  if (error.code === 'locked') return EXIT.locked;
  return error.code === 'config' ? EXIT.config : EXIT.failed;
}
