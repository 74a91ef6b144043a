/** What a failure of the sandbox platform means to the person who set it up. Pure. */
import { describeError, DvoError } from '../../lib/errors.ts';
import { isProviderError, type ProviderErrorKind } from '../../sandboxes/provider.ts';
import { fail, type Finding } from './check.ts';

const FIXES: Readonly<Record<ProviderErrorKind, string>> = {
  unauthenticated:
    'check the credential (CWSANDBOX_API_KEY, WANDB_API_KEY, or FORGE_API_KEY with FORGE_TEAM): expired, of another organization, or without the action SANDBOX_USER',
  exhausted:
    'wait, or ask CoreWeave for more quota; lower MAX_CONCURRENT_SESSIONS, SANDBOX_CPU or SANDBOX_MEMORY to fit',
  misconfigured:
    'change what is refused: SANDBOX_IMAGE, SANDBOX_CPU, SANDBOX_MEMORY, SANDBOX_DISK, SANDBOX_RUNNER_IDS, SANDBOX_TEMPLATE_ID or SANDBOX_SECRETS; docs/coreweave.md lists the reasons',
  ambiguous:
    'check that this machine reaches the platform (CWSANDBOX_BASE_URL, firewall, proxy), and try again',
  unsupported:
    'ask CoreWeave to enable it for the organization, or set SUSPEND_MODE=keep: sleeping sessions then keep their sandbox',
  'archive-failed':
    'try again; if it stays, ask CoreWeave about archives (file-system snapshots) of your organization',
  invalid: 'this is a request that dvo should not make: report it, with this message',
  gone: 'the sandbox ended by itself: its image’s main process may not start; try another SANDBOX_IMAGE',
  'not-found':
    'it vanished while it was in use: something else cleans up in this account, or its lifetime is too short',
};

/** A finding for a failure of the platform or a limit that passed. Everything else is thrown on. */
export function platformFault(error: unknown, signal: AbortSignal): Finding {
  if (signal.aborted || !(error instanceof DvoError)) throw error;
  const cause = describeError(error);
  if (isProviderError(error)) return fail(`${cause} (${error.kind})`, FIXES[error.kind]);
  if (error.code === 'deadline') return fail(cause, FIXES.ambiguous);
  if (error.code === 'config') {
    return fail(cause, 'npm install @coreweave/cwsandbox beside dvo, or use the image, which has it');
  }
  return fail(cause, 'see the message; docs/operations.md has an entry for each');
}
