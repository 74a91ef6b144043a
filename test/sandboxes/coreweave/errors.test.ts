import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Redactor } from '../../../src/lib/secret.ts';
import { mapFailure, REASONS, reasonTable, type Operation } from '../../../src/sandboxes/coreweave/errors.ts';
import { readFailure, toProviderError } from '../../../src/sandboxes/coreweave/failure.ts';
import { DvoError } from '../../../src/lib/errors.ts';

/** Every reason that the platform's pages name. */
const RETRY_LATER = [
  'RUNNER_CAPACITY_EXHAUSTED',
  'RUNNER_OVERLOADED',
  'RUNNER_UNAVAILABLE',
  'BACKEND_UNAVAILABLE',
  'NO_SUITABLE_RUNNER',
];
const OUR_FAULT = [
  'PLACEMENT_REJECTED',
  'PLACEMENT_CONSTRAINT_UNSATISFIED',
  'INVALID_REQUEST',
  'RESOURCE_CEILING_EXCEEDED',
  'GPU_NOT_ALLOWED',
  'GPU_COUNT_EXCEEDED',
  'SECRET_STORE_NOT_PROVISIONED',
  'SERVERLESS_NOT_ALLOWED',
  'SERVERLESS_DISABLED',
  'SERVERLESS_MISCONFIGURED',
  'NOT_IMPLEMENTED',
];
const ARCHIVES: Readonly<Record<string, string>> = {
  FSS_NOT_FOUND: 'not-found',
  FSS_NOT_READY: 'exhausted',
  FSS_NOT_SUPPORTED: 'unsupported',
  FSS_SIZE_EXCEEDED: 'archive-failed',
  FSS_QUOTA_EXCEEDED: 'exhausted',
  FSS_BUCKET_MISMATCH: 'archive-failed',
  FSS_BUCKET_PROVISIONING: 'exhausted',
  FSS_BUCKET_UNAVAILABLE: 'exhausted',
  FSS_RESTORE_FAILED: 'archive-failed',
  FSS_CREATE_FAILED: 'archive-failed',
  FSS_CREATE_TIMED_OUT: 'ambiguous',
  FSS_WAIT_TIMEOUT: 'ambiguous',
  FSS_BACKEND_THROTTLED: 'exhausted',
  FSS_INFLIGHT_LIMIT: 'exhausted',
  FSS_CANCELED: 'ambiguous',
};

const kind = (operation: Operation, code: string, transportCode?: string, reason?: string) =>
  mapFailure(
    {
      code,
      ...(transportCode === undefined ? {} : { transportCode }),
      ...(reason === undefined ? {} : { reason: `CWSANDBOX_${reason}` }),
    },
    operation,
  ).kind;

describe('what an error of the SDK means', () => {
  it.each(RETRY_LATER)('%s: wait, and try again within the claim', (reason) => {
    expect(kind('create', 'unavailable', 'UNAVAILABLE', reason)).toBe('exhausted');
    expect(kind('restore', 'resource_exhausted', 'RESOURCE_EXHAUSTED', reason)).toBe('exhausted');
  });

  it.each(OUR_FAULT)('%s: the configuration has to be changed', (reason) => {
    expect(kind('create', 'transport_error', 'INVALID_ARGUMENT', reason)).toBe('misconfigured');
    expect(kind('restore', 'transport_error', 'FAILED_PRECONDITION', reason)).toBe('misconfigured');
    expect(kind('exec', 'transport_error', 'INVALID_ARGUMENT', reason)).toBe('invalid');
  });

  it.each(Object.entries(ARCHIVES))('%s on an archive: %s', (reason, expected) => {
    expect(kind('snapshot', 'transport_error', 'FAILED_PRECONDITION', reason)).toBe(expected);
  });

  it('S2: an archive whose record says FAILED has failed, whatever its reason; one that was not answered may yet be made', () => {
    for (const reason of [undefined, 'FSS_CANCELED', 'FSS_CREATE_TIMED_OUT']) {
      expect(kind('snapshot', 'transport_error', undefined, reason)).toBe('archive-failed');
    }
    expect(mapFailure({ code: 'transport_error', reason: 'disk broke' }, 'snapshot')).toEqual({
      kind: 'archive-failed',
      reason: 'disk broke',
    });
    expect(kind('snapshot', 'timeout_error')).toBe('ambiguous');
    expect(kind('snapshot', 'unavailable', 'UNAVAILABLE')).toBe('ambiguous');
  });

  it('S4: tells a missing archive from a missing sandbox', () => {
    const missing = (operation: Operation, reason?: string) =>
      mapFailure(
        { code: 'not_found', transportCode: 'NOT_FOUND', ...(reason === undefined ? {} : { reason }) },
        operation,
      );
    expect(missing('restore', 'CWSANDBOX_FSS_NOT_FOUND')).toEqual({ kind: 'not-found', reason: 'snapshot' });
    expect(missing('restore')).toEqual({ kind: 'not-found', reason: 'snapshot' });
    expect(missing('archive')).toEqual({ kind: 'not-found', reason: 'snapshot' });
    expect(missing('sandbox', 'CWSANDBOX_SANDBOX_NOT_FOUND')).toEqual({ kind: 'not-found' });
    expect(missing('exec')).toEqual({ kind: 'not-found' });
    expect(missing('create').kind).toBe('misconfigured');
    expect(mapFailure({ code: 'transport_error', reason: 'CWSANDBOX_FILE_NOT_FOUND' }, 'file')).toEqual({
      kind: 'not-found',
      reason: 'file',
    });
  });

  it.each<[Operation, string, string | undefined, string]>([
    ['create', 'unavailable', 'UNAVAILABLE', 'ambiguous'],
    ['create', 'timeout_error', 'DEADLINE_EXCEEDED', 'ambiguous'],
    ['create', 'transport_error', 'CANCELLED', 'ambiguous'],
    ['create', 'transport_error', 'INTERNAL', 'ambiguous'],
    ['create', 'transport_error', 'ABORTED', 'ambiguous'],
    ['create', 'resource_exhausted', 'RESOURCE_EXHAUSTED', 'exhausted'],
    ['create', 'authentication_error', 'UNAUTHENTICATED', 'unauthenticated'],
    ['sandbox', 'authentication_error', 'PERMISSION_DENIED', 'unauthenticated'],
    ['create', 'transport_error', 'INVALID_ARGUMENT', 'misconfigured'],
    ['create', 'validation_error', undefined, 'misconfigured'],
    ['create', 'configuration_error', undefined, 'misconfigured'],
    ['exec', 'validation_error', undefined, 'invalid'],
    ['exec', 'transport_error', 'FAILED_PRECONDITION', 'gone'],
    ['snapshot', 'transport_error', 'FAILED_PRECONDITION', 'gone'],
    ['snapshot', 'sandbox_failed', undefined, 'gone'],
    ['snapshot', 'sandbox_terminated', undefined, 'gone'],
    ['snapshot', 'not_implemented', undefined, 'unsupported'],
    ['sandbox', 'transport_error', 'UNIMPLEMENTED', 'unsupported'],
    ['exec', 'execution_error', undefined, 'ambiguous'],
    ['exec', 'what_a_later_version_says', undefined, 'ambiguous'],
  ])('%s, %s, %s: %s', (operation, code, transportCode, expected) => {
    expect(kind(operation, code, transportCode)).toBe(expected);
  });

  it('never takes an unclear create for one that did not happen', () => {
    const clear = new Set([
      'exhausted',
      'misconfigured',
      'unauthenticated',
      'unsupported',
      'not-found',
      'archive-failed',
    ]);
    fc.assert(
      fc.property(fc.string(), fc.string(), (code, transportCode) => {
        const mapped = mapFailure({ code, transportCode }, 'create').kind;
        return mapped === 'ambiguous' || clear.has(mapped);
      }),
    );
    for (const status of [
      'UNKNOWN',
      'INTERNAL',
      'ABORTED',
      'CANCELLED',
      'DATA_LOSS',
      '14',
      'STREAM_INTERRUPTED',
    ]) {
      expect(kind('create', 'transport_error', status)).toBe('ambiguous');
    }
  });

  it('keeps how long the platform asks to be left alone', () => {
    expect(readFailure({ code: 'resource_exhausted', retryDelayMs: 1_500 })).toMatchObject({
      retryDelayMs: 1_500,
    });
    expect(mapFailure({ code: 'resource_exhausted', retryDelayMs: 1_500 }, 'create').retryAfterMs).toBe(
      1_500,
    );
  });

  it('T8: shows nothing secret of the server’s words, nor keeps them as a cause; its own errors pass', () => {
    const redactor = new Redactor();
    redactor.add('secret-token');
    const thrown = Object.assign(new Error('bad key secret-token', { cause: new Error('secret-token') }), {
      code: 'authentication_error',
    });
    const error = toProviderError(thrown, 'create', 'create sandbox', redactor);
    expect(error).toMatchObject({
      kind: 'unauthenticated',
      message: 'create sandbox: bad key [redacted]',
    });
    expect(error.cause).toBeUndefined();
    const own = new DvoError('deadline', 'late');
    expect(toProviderError(own, 'create', 'x', redactor)).toBe(own);
    for (const odd of [undefined, null, 'text', 7, {}]) {
      expect(toProviderError(odd, 'create', 'x', redactor)).toMatchObject({ kind: 'ambiguous' });
    }
  });

  it('P5: docs/coreweave.md shows this very table', () => {
    const page = readFileSync(new URL('../../../docs/coreweave.md', import.meta.url), 'utf8');
    expect(page).toContain(reasonTable());
    const known = Object.keys(REASONS);
    for (const reason of [...RETRY_LATER, ...OUR_FAULT, ...Object.keys(ARCHIVES)])
      expect(known).toContain(reason);
  });
});
