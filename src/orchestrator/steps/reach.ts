/** Which hosts a session's sandbox may reach, by Devin's network policy. What cannot be enforced is not served. */
import { DvoError } from '../../lib/errors.ts';
import { enter } from '../../session/amend.ts';
import type { StepContext } from '../context.ts';
import type { StepResult } from './step.ts';

/** `hosts` undefined: the platform's own rules. */
export interface Reach {
  readonly hosts: readonly string[] | undefined;
}

/**
 * What the queue's last word allows; undefined: its row is not there, so nobody knows.
 * @throws DvoError `config` when the policy cannot be enforced: it was not so when the session was admitted
 */
export function reachNow(ctx: StepContext, gatewayUrl: string | undefined): Reach | undefined {
  const { queue, egressFor } = ctx.deps;
  const { entry } = queue.sighting(ctx.sessionId);
  if (entry === undefined) return undefined;
  const egress = egressFor(entry.networkPolicy, gatewayUrl);
  if (egress.kind === 'unenforceable')
    throw new DvoError('config', `the session's network policy cannot be enforced: ${egress.rule}`);
  return { hosts: egress.kind === 'limited' ? egress.hosts : undefined };
}

/** The same for a sandbox that is about to be made. The gateway's host stands in the claim's answer, and only there. */
export async function reachOfNext(ctx: StepContext): Promise<Reach | undefined> {
  const { claims, limits, gatewayUrl, queue } = ctx.deps;
  const reach = reachNow(ctx, gatewayUrl);
  if (reach?.hosts === undefined) {
    const { entry } = queue.sighting(ctx.sessionId);
    if (entry?.networkPolicy?.enabled === true) ctx.log.warn('network policy of the session ignored');
    return reach;
  }
  const claimed = await claims.grant(ctx.sessionId, Infinity, ctx.call(limits.apiMs));
  return reachNow(ctx, (claimed.kind === 'claimed' ? claimed.grant.gatewayUrl : undefined) ?? gatewayUrl);
}

/** Whether the session's sandbox was made with these rules: it may be older than the policy, or another daemon's. */
export function isWithin(ctx: StepContext, { hosts }: Reach): boolean {
  const { egress } = ctx.record;
  if (hosts === undefined || egress === undefined) return hosts === egress;
  return new Set(hosts).symmetricDifference(new Set(egress)).size === 0;
}

/**
 * Rules are given to a sandbox when it is made, so the session goes on in a new one, from an archive of this one.
 * @throws DvoError `config` where there are no archives, or they fail again and again
 */
export async function moveWithin(ctx: StepContext): Promise<StepResult> {
  const { unsupported, failures = 0, retryAt = ctx.now } = ctx.record.archiving ?? {};
  const isHopeless = unsupported === true || failures >= ctx.deps.rules.stepRetryLimit;
  if (isHopeless && ctx.now < retryAt)
    throw new DvoError('config', 'the sandbox is older than the network policy, and cannot be archived');
  if (ctx.now < retryAt) return { again: retryAt };
  ctx.log.info('network policy has changed: the session moves to a sandbox within it');
  const set = { ending: 'roll-over' } as const;
  await ctx.save(enter('suspending', ctx.now, { set, clear: ['remoteStoppedAt'] }));
  return undefined;
}
