import { describe, expect, it } from 'vitest';
import { egressOf } from '../../src/session/egress.ts';
import type { NetworkRule } from '../../src/session/session.ts';

const policy = (...allow: NetworkRule[]) => ({ enabled: true, allow });
const host = (value: string): NetworkRule => ({ kind: 'hostname', value });
const needs = ['gateway.devin.ai'];

describe('S6: Devin’s network policy as host names', () => {
  it('leaves a session without a policy, or with one that is off, alone', () => {
    expect(egressOf(undefined, needs)).toEqual({ kind: 'open' });
    expect(egressOf({ enabled: false, allow: [host('a.b')] }, needs)).toEqual({ kind: 'open' });
  });

  it('allows what the remote needs and what is listed, each once', () => {
    expect(egressOf(policy(), needs)).toEqual({ kind: 'limited', hosts: needs });
    const hosts = ['Example.com.', 'example.com', '*.github.com', 'gateway.devin.ai'];
    expect(egressOf(policy(...hosts.map(host)), needs)).toEqual({
      kind: 'limited',
      hosts: ['gateway.devin.ai', 'example.com', '*.github.com'],
    });
  });

  it.each([
    host('*'),
    host('a.*.com'),
    host('*.*.com'),
    host('foo*.com'),
    host('10.0.0.1'),
    host('localhost'),
    host('a b.com'),
    host(''),
    host(`${'x'.repeat(64)}.com`),
    { kind: 'ipv4', value: '10.0.0.0/8' } as const,
    { kind: 'ipv6', value: '::/0' } as const,
    { kind: 'unknown', value: 'asn' } as const,
  ])('cannot express %o', (rule) => {
    expect(egressOf(policy(rule), needs).kind).toBe('unenforceable');
  });
});
