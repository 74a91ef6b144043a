/** Devin's network policy in terms of host names that a sandbox may reach. Pure. */
import type { NetworkPolicy, NetworkRule } from './session.ts';

export type Egress =
  /** No policy, or one that is switched off. */
  | { readonly kind: 'open' }
  /** Only these: exact names, or one leftmost `*.`. */
  | { readonly kind: 'limited'; readonly hosts: readonly string[] }
  /** `rule` cannot be expressed as a host name. */
  | { readonly kind: 'unenforceable'; readonly rule: string };

const LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?';
const HOST = new RegExp(`^(\\*\\.)?(${LABEL}\\.)+${LABEL}$`);

/**
 * @param needs host names that the remote itself cannot do without (gateway, binary host); always reachable. A policy
 *   that is enabled and empty leaves only these.
 */
export function egressOf(policy: NetworkPolicy | undefined, needs: readonly string[]): Egress {
  if (policy?.enabled !== true) return { kind: 'open' };
  const hosts = new Set<string>(needs);
  for (const rule of policy.allow) {
    const host = hostOf(rule);
    if (host === undefined) return { kind: 'unenforceable', rule: `${rule.kind} ${rule.value}` };
    hosts.add(host);
  }
  return { kind: 'limited', hosts: [...hosts] };
}

function hostOf(rule: NetworkRule): string | undefined {
  if (rule.kind !== 'hostname') return undefined;
  const host = rule.value.trim().toLowerCase().replace(/\.$/, '');
  // Four numbers are an address, whatever field they came in.
  return HOST.test(host) && host.length <= 253 && !/^[\d.]+$/.test(host) ? host : undefined;
}
