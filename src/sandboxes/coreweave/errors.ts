/**
 * What an error of the SDK means to dvo. Pure: one function over code, reason and the operation of ours that failed.
 * The table of reasons is also what docs/coreweave.md shows; a test compares the two.
 */
import type { ProviderErrorKind } from '../provider.ts';

/** What dvo was doing. The same answer means different things to different operations. */
export type Operation =
  | 'create' // a sandbox with an empty volume
  | 'restore' // a sandbox from an archive
  | 'sandbox' // get, list, destroy
  | 'exec'
  | 'file'
  | 'logs'
  | 'snapshot' // making an archive
  | 'archive'; // get, list, delete archives

/** The parts of an SDK error that mean something. Its message is for people only. */
export interface SdkFailure {
  readonly code?: string;
  readonly reason?: string;
  /** gRPC status name, or an in-band code of a stream. Absent when the SDK itself decided. */
  readonly transportCode?: string;
  readonly retryDelayMs?: number;
}

export interface Mapped {
  readonly kind: ProviderErrorKind;
  readonly reason?: string;
  readonly retryAfterMs?: number;
}

interface Meaning {
  readonly kind: ProviderErrorKind;
  /** For people: what dvo does about it. */
  readonly does: string;
}

const WAITS = 'waits and tries again while it holds the claim; the session is not blamed';
const LOOKS = 'takes it as "may have happened": looks first, then tries again';
const FAILED_ARCHIVE = 'keeps the sandbox and its work, shows the failure, asks for another archive later';
const FAILED_RESTORE =
  'tries a bounded number of times, then starts the session with an empty workspace and says so';
const PAUSES = 'gives the session back, claims nothing new, and says what has to be changed';

/** Every reason that the platform is known to give, without its prefix `CWSANDBOX_`. */
export const REASONS: Readonly<Record<string, Meaning>> = {
  RUNNER_CAPACITY_EXHAUSTED: { kind: 'exhausted', does: WAITS },
  RUNNER_OVERLOADED: { kind: 'exhausted', does: WAITS },
  RUNNER_UNAVAILABLE: { kind: 'exhausted', does: WAITS },
  BACKEND_UNAVAILABLE: { kind: 'exhausted', does: WAITS },
  NO_SUITABLE_RUNNER: { kind: 'exhausted', does: WAITS },
  PLACEMENT_REJECTED: { kind: 'misconfigured', does: PAUSES },
  PLACEMENT_CONSTRAINT_UNSATISFIED: { kind: 'misconfigured', does: PAUSES },
  INVALID_REQUEST: { kind: 'misconfigured', does: PAUSES },
  RESOURCE_CEILING_EXCEEDED: { kind: 'misconfigured', does: PAUSES },
  GPU_NOT_ALLOWED: { kind: 'misconfigured', does: PAUSES },
  GPU_COUNT_EXCEEDED: { kind: 'misconfigured', does: PAUSES },
  SECRET_STORE_NOT_PROVISIONED: { kind: 'misconfigured', does: PAUSES },
  SERVERLESS_NOT_ALLOWED: { kind: 'misconfigured', does: PAUSES },
  SERVERLESS_DISABLED: { kind: 'misconfigured', does: PAUSES },
  SERVERLESS_MISCONFIGURED: { kind: 'misconfigured', does: PAUSES },
  NOT_IMPLEMENTED: { kind: 'misconfigured', does: PAUSES },
  SANDBOX_NOT_FOUND: {
    kind: 'not-found',
    does: 'takes the sandbox as gone: a live session goes on from its newest archive',
  },
  COMMAND_TIMEOUT: { kind: 'ambiguous', does: LOOKS },
  FILE_NOT_FOUND: { kind: 'not-found', does: 'takes the file as absent' },
  FILE_IS_DIRECTORY: { kind: 'invalid', does: 'fails the step' },
  FILE_PERMISSION_DENIED: { kind: 'invalid', does: 'fails the step' },
  FILE_TOO_LARGE: { kind: 'invalid', does: 'fails the step' },
  FILE_IO_FAILED: { kind: 'ambiguous', does: LOOKS },
  FILE_TRUNCATED: { kind: 'ambiguous', does: LOOKS },
  FSS_NOT_FOUND: { kind: 'not-found', does: `takes the archive as gone; on a restore: ${FAILED_RESTORE}` },
  FSS_NOT_READY: { kind: 'exhausted', does: WAITS },
  FSS_NOT_SUPPORTED: {
    kind: 'unsupported',
    does: 'keeps the sandboxes of suspended sessions instead of archiving them, and says so',
  },
  FSS_SIZE_EXCEEDED: {
    kind: 'misconfigured',
    does: `${PAUSES} (SANDBOX_DISK); on an archive: ${FAILED_ARCHIVE}`,
  },
  FSS_QUOTA_EXCEEDED: { kind: 'exhausted', does: FAILED_ARCHIVE },
  FSS_BUCKET_MISMATCH: { kind: 'archive-failed', does: FAILED_RESTORE },
  FSS_BUCKET_PROVISIONING: { kind: 'exhausted', does: WAITS },
  FSS_BUCKET_UNAVAILABLE: { kind: 'exhausted', does: WAITS },
  FSS_RESTORE_FAILED: { kind: 'archive-failed', does: FAILED_RESTORE },
  FSS_CREATE_FAILED: { kind: 'archive-failed', does: FAILED_ARCHIVE },
  FSS_CREATE_TIMED_OUT: { kind: 'ambiguous', does: LOOKS },
  FSS_WAIT_TIMEOUT: { kind: 'ambiguous', does: LOOKS },
  FSS_BACKEND_THROTTLED: { kind: 'exhausted', does: WAITS },
  FSS_INFLIGHT_LIMIT: { kind: 'exhausted', does: WAITS },
  FSS_CANCELED: { kind: 'ambiguous', does: LOOKS },
};

const PREFIX = 'CWSANDBOX_';

export function mapFailure(failure: SdkFailure, operation: Operation): Mapped {
  const kind = kindOf(failure, operation);
  const reason =
    kind === 'not-found' ? missing(failure, operation) : (failure.reason ?? failure.transportCode);
  return {
    kind,
    ...(reason === undefined ? {} : { reason }),
    ...(failure.retryDelayMs === undefined ? {} : { retryAfterMs: failure.retryDelayMs }),
  };
}

function kindOf(failure: SdkFailure, operation: Operation): ProviderErrorKind {
  const { code, reason, transportCode } = failure;
  // An archive whose record says FAILED: the SDK reports it with the record's reason and no status of a call.
  if (operation === 'snapshot' && code === 'transport_error' && transportCode === undefined)
    return 'archive-failed';
  const known = reason?.startsWith(PREFIX) === true ? REASONS[reason.slice(PREFIX.length)] : undefined;
  if (known !== undefined) return inContext(known.kind, operation);
  return byCode(code, transportCode, operation);
}

/** "Our request is wrong" concerns every session only when it is the request for a sandbox. */
function inContext(kind: ProviderErrorKind, operation: Operation): ProviderErrorKind {
  if (kind !== 'misconfigured' || operation === 'create' || operation === 'restore') return kind;
  return operation === 'snapshot' ? 'archive-failed' : 'invalid';
}

function byCode(
  code: string | undefined,
  transportCode: string | undefined,
  operation: Operation,
): ProviderErrorKind {
  switch (code ?? '') {
    case 'authentication_error':
      return 'unauthenticated';
    case 'not_found':
      // Nothing but an archive can be missing when a sandbox is asked for; without one it is a template or a runner.
      return operation === 'create' ? 'misconfigured' : 'not-found';
    case 'not_implemented':
      return 'unsupported';
    case 'resource_exhausted':
      return 'exhausted';
    case 'sandbox_failed':
    case 'sandbox_terminated':
      return 'gone';
    case 'configuration_error':
      return 'misconfigured';
    case 'validation_error':
      return inContext('misconfigured', operation);
    case 'transport_error':
      return byStatus(transportCode, operation);
    default:
      // unavailable, timeout_error, execution_error, terminal_state_unavailable, and what later versions add.
      return 'ambiguous';
  }
}

function byStatus(transportCode: string | undefined, operation: Operation): ProviderErrorKind {
  switch (transportCode ?? '') {
    case 'FAILED_PRECONDITION':
      return operation === 'create' || operation === 'restore' ? 'misconfigured' : 'gone';
    case 'INVALID_ARGUMENT':
    case 'OUT_OF_RANGE':
    case 'ALREADY_EXISTS':
      return inContext('misconfigured', operation);
    case 'UNIMPLEMENTED':
      return 'unsupported';
    default:
      return 'ambiguous';
  }
}

/** What is missing: the callers ask for `file` or `snapshot`; undefined is the sandbox itself. */
function missing(failure: SdkFailure, operation: Operation): string | undefined {
  if (failure.reason === 'CWSANDBOX_FILE_NOT_FOUND') return 'file';
  if (failure.reason === 'CWSANDBOX_SANDBOX_NOT_FOUND') return undefined;
  const ofArchive =
    failure.reason === 'CWSANDBOX_FSS_NOT_FOUND' || operation === 'restore' || operation === 'archive';
  return ofArchive ? 'snapshot' : undefined;
}

/** The table of docs/coreweave.md. */
export function reasonTable(): string {
  const rows = Object.entries(REASONS).map(
    ([reason, { kind, does }]) => `| \`${reason}\` | ${kind} | ${does} |`,
  );
  return ['| reason (`CWSANDBOX_…`) | means to dvo | what dvo does |', '| --- | --- | --- |', ...rows].join(
    '\n',
  );
}
