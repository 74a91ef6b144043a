/** From whatever the SDK threw to the provider's typed errors. Reads plain members: `instanceof` fails across copies. */
import { describeError, DvoError } from '../../lib/errors.ts';
import type { Redactor } from '../../lib/secret.ts';
import { ProviderError } from '../provider.ts';
import { mapFailure, type Operation, type SdkFailure } from './errors.ts';

/**
 * Errors of ours pass as they are. The SDK's own is not kept as `cause`: its text may echo what the server was sent,
 * and causes are printed.
 */
export function toProviderError(
  thrown: unknown,
  operation: Operation,
  what: string,
  redactor: Redactor,
): DvoError {
  if (thrown instanceof DvoError) return thrown;
  const { kind, ...details } = mapFailure(readFailure(thrown), operation);
  return new ProviderError(kind, redactor.scrub(`${what}: ${describeError(thrown)}`), {
    ...details,
    operation: what,
  });
}

export function readFailure(thrown: unknown): SdkFailure {
  if (typeof thrown !== 'object' || thrown === null) return {};
  const code = 'code' in thrown ? text(thrown.code) : undefined;
  const reason = 'reason' in thrown ? text(thrown.reason) : undefined;
  const transportCode = 'transportCode' in thrown ? text(thrown.transportCode) : undefined;
  const retryDelayMs = 'retryDelayMs' in thrown ? thrown.retryDelayMs : undefined;
  return {
    ...(code === undefined ? {} : { code }),
    ...(reason === undefined ? {} : { reason }),
    ...(transportCode === undefined ? {} : { transportCode }),
    ...(typeof retryDelayMs === 'number' && retryDelayMs >= 0 ? { retryDelayMs } : {}),
  };
}

function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}
