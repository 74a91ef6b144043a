/** The sandbox of a session, found and open, for the commands that go into it. */
import { unstopped } from '../../lib/deadline.ts';
import { DvoError } from '../../lib/errors.ts';
import { placesIn } from '../../remote/places.ts';
import { isProviderError, type AttachableProvider, type SandboxInfo } from '../../sandboxes/provider.ts';
import { openBeside, openSandboxes } from '../beside.ts';
import { findSession } from '../find-session.ts';
import type { Terminal } from '../terminal.ts';

export interface Place {
  readonly provider: AttachableProvider;
  readonly info: SandboxInfo;
  /** Where the session works, and its home. */
  readonly workdir: string;
  readonly home: string;
  /** SANDBOX_USER; undefined: the user that the platform's own commands run as. */
  readonly user: string | undefined;
}

const LOOK_MS = 30_000;

/**
 * `opened` closes it.
 * @throws DvoError `config`, `state`: no such session, or nothing to go into; ProviderError
 */
export async function openPlace(
  wanted: string,
  terminal: Terminal,
  opened: AsyncDisposableStack,
): Promise<Place> {
  const { redactor, look } = openBeside(terminal, opened);
  const { sessions } = await look();
  const session = findSession(sessions, wanted);
  if (session === undefined) {
    throw new DvoError('state', `no session here is called ${wanted}; dvo status lists them`);
  }
  const { sessionId, sandboxId, stage, since } = session;
  if (sandboxId === undefined) {
    const asleep = `is asleep since ${new Date(since).toISOString()}`;
    const why = stage === 'suspended' ? asleep : `has no sandbox yet (${stage})`;
    throw new DvoError(
      'state',
      `${sessionId} ${why}: there is nothing to go into until dvo status shows a sandbox`,
    );
  }
  const { config, provider } = await openSandboxes(terminal, redactor, opened);
  const info = await inspect(provider, sandboxId);
  if (info?.state !== 'running') {
    const what = info === undefined ? 'is gone' : `is ${info.state}`;
    throw new DvoError('state', `the sandbox of ${sessionId} ${what}; dvo status shows what becomes of it`);
  }
  const { workspace } = config;
  return { provider, info, user: workspace.user, ...placesIn(info.paths, workspace) };
}

async function inspect(provider: AttachableProvider, id: string): Promise<SandboxInfo | undefined> {
  try {
    return await provider.get(id, unstopped(LOOK_MS));
  } catch (error) {
    if (!isProviderError(error, 'not-found')) throw error;
    return undefined;
  }
}
