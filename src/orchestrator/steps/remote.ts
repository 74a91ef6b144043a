/** Steps on the remote: prepare its sandbox, launch it, look at it. */
import { isGone } from '../../sandboxes/provider.ts';
import { describeError } from '../../lib/errors.ts';
import { enter, OF_THE_SANDBOX } from '../../session/amend.ts';
import type { RemoteFact } from '../../session/session.ts';
import type { RemoteProbe, Target } from '../../remote/port.ts';
import type { StepContext } from '../context.ts';
import { isWithin, moveWithin, reachNow } from './reach.ts';
import { inspect, sandboxFact, stillHeld, target, type StepResult } from './step.ts';

/** A connect token this young is as good as a new one. */
const FRESH_TOKEN_MS = 60_000;

export async function prepare(ctx: StepContext): Promise<StepResult> {
  const { remote, limits, queue } = ctx.deps;
  // A mark that is made when the claim has lapsed would pass for work, newer than what its new holder has archived.
  if (!(await stillHeld(ctx))) return undefined;
  const place = await target(ctx);
  if (ctx.record.stage !== 'preparing') {
    // On disk before the marker is: from here on the sandbox is the session's.
    const { stage, failures } = ctx.record;
    // A sandbox that is lost again and again before its remote runs is a failure of the session in the end.
    const set = { failures: stage === 'provisioning' ? failures : 0 };
    await ctx.save(enter('preparing', ctx.now, { set, clear: ['preparedSha'] }));
  }
  const pinned = queue.sighting(ctx.sessionId).entry?.remoteSha;
  const binary = await remote.resolve(pinned, ctx.call(limits.apiMs));
  const report = await remote.prepare(
    place,
    {
      binary,
      marker: ctx.marker(place.sandboxId),
      ...(ctx.record.takenFrom !== undefined && { replaces: ctx.record.takenFrom }),
    },
    ctx.call(limits.prepareMs),
  );
  if (report.kind === 'condemned') return await condemned(ctx, place);
  if (report.kind === 'foreign') return await takenOver(ctx);
  ctx.amend({ set: { preparedSha: binary.sha, failures: 0 }, clear: ['takenFrom'] });
  ctx.log.info('sandbox prepared', {
    sha: binary.sha,
    downloaded: report.downloaded,
    notes: report.notes,
    tookMs: ctx.tookMs,
  });
  return undefined;
}

const CONDEMNED_LOOK_MS = 2_000;

/**
 * The daemon that had the session before us was about to destroy the sandbox. Until that is over nothing is begun in
 * it; a destroy that has not come by then does not come any more, and its daemon would look at the marker first.
 */
async function condemned(ctx: StepContext, place: Target): Promise<StepResult> {
  const { remote, limits, rules } = ctx.deps;
  ctx.facts({ sandbox: 'unknown' });
  if (ctx.now - ctx.record.stageSince < rules.bootTimeoutMs) {
    ctx.log.warn('sandbox is being destroyed by the daemon before us: waiting');
    return { again: ctx.now + CONDEMNED_LOOK_MS };
  }
  await remote.spare(place, ctx.call(limits.platformMs));
  return { again: ctx.now };
}

/**
 * Another daemon has marked the sandbox since we adopted it. Whoever has the session by now has the sandbox: if that is
 * us again, it is adopted anew, as one that may hold the other's work.
 */
async function takenOver(ctx: StepContext): Promise<StepResult> {
  const { queue, limits } = ctx.deps;
  ctx.log.warn('sandbox has been taken over by another daemon meanwhile', {
    sandboxId: ctx.record.sandboxId,
  });
  const { gist } = await queue.look(ctx.sessionId, ctx.call(limits.apiMs));
  if (gist !== 'held') return undefined;
  await ctx.save(enter('provisioning', ctx.now, { clear: OF_THE_SANDBOX }));
  ctx.facts({ sandbox: 'none', remote: 'unknown' });
  return undefined;
}

/** The launch is counted, and its id on disk, before it happens: a remote that kills us is counted too. */
export async function launch(ctx: StepContext): Promise<StepResult> {
  const { remote, limits, claims, random, recorder, queue, gatewayUrl } = ctx.deps;
  if (!(await stillHeld(ctx))) return undefined;
  const place = await target(ctx);
  const claimed = await claims.grant(ctx.sessionId, FRESH_TOKEN_MS, ctx.call(limits.apiMs));
  if (claimed.kind !== 'claimed') return undefined;
  const gateway = claimed.grant.gatewayUrl ?? gatewayUrl;
  if (gateway === undefined) return await withoutGateway(ctx);
  const reach = reachNow(ctx, gateway);
  if (reach === undefined) return undefined;
  if (!isWithin(ctx, reach)) return await moveWithin(ctx);
  const { record } = ctx;
  const sha = record.preparedSha ?? '';
  const launchId = random.id();
  const launches = record.launches + 1;
  const { servedSince = ctx.now } = record;
  const run = { launchId, sha, launchedAt: ctx.now };
  await ctx.save({ set: { launches, remote: run, servedSince }, clear: ['fresh'] });
  // What was seen to exit is the remote before this one, which may live although the launch seems to fail.
  ctx.facts({ remote: 'unknown' });
  const report = await remote.launch(
    place,
    {
      launchId,
      sessionId: ctx.sessionId,
      sha,
      connectToken: claimed.grant.connectToken,
      gatewayUrl: gateway,
    },
    ctx.call(limits.launchMs),
  );
  const running = { launchId: report.launchId, sha, launchedAt: ctx.now, pid: report.pid };
  ctx.amend(enter('serving', ctx.now, { set: { remote: running } }));
  ctx.facts({
    sandbox: 'running',
    remote: 'running',
    probedAt: ctx.now,
    healthySince: ctx.now,
    looksSinceExit: 0,
  });
  if (launches > 1) recorder.remoteRestart();
  const enqueuedAt = queue.sighting(ctx.sessionId).entry?.createdAt;
  if (launches === 1 && enqueuedAt !== undefined) recorder.servingAfter(ctx.now - enqueuedAt);
  ctx.log.info('remote launched', {
    pid: report.pid,
    launch: report.launchId,
    adopted: report.adopted,
    launches,
    tookMs: ctx.tookMs,
  });
  return undefined;
}

async function withoutGateway(ctx: StepContext): Promise<StepResult> {
  await ctx.save({ set: { failures: ctx.record.failures + 1 } });
  ctx.log.error('the claim names no gateway, and DEVIN_OUTPOST_GATEWAY_URL is not set');
  return { again: ctx.now + 5_000 };
}

/** A look at the sandbox and, while serving, at the remote. What could not be seen is unknown, never gone. */
export async function probe(ctx: StepContext): Promise<StepResult> {
  const { sandboxId, stage } = ctx.record;
  ctx.facts({ probedAt: ctx.now });
  if (sandboxId === undefined) {
    ctx.facts({ sandbox: 'none', remote: 'unknown' });
    return undefined;
  }
  try {
    // In the steady state one call tells both: a script that answers has run in a sandbox that runs.
    if (stage !== 'serving' || !(await probeRemote(ctx))) {
      const info = await inspect(ctx, sandboxId);
      ctx.facts({ sandbox: sandboxFact(info), remote: 'unknown' });
    }
    ctx.facts({ unanswered: 0 });
    ctx.deps.gate.resume('platform-credentials');
  } catch (error) {
    ctx.facts({ remote: 'unknown', unanswered: (ctx.lane.facts.unanswered ?? 0) + 1 });
    ctx.deps.gate.noteRefusedKey(error);
    if (error instanceof Error) ctx.log.warn('probe failed', { error: describeError(error) });
  }
  // Counted from its end too: one that takes longer than the pace must not keep everything else from its turn.
  ctx.facts({ probedAt: ctx.now });
  return undefined;
}

/** False: its sandbox is not there to be asked. */
async function probeRemote(ctx: StepContext): Promise<boolean> {
  const { remote, limits } = ctx.deps;
  try {
    const place = await target(ctx);
    const seen = await remote.probe(place, ctx.call(limits.probeMs));
    noteRemote(ctx, seen);
    return true;
  } catch (error) {
    if (isGone(error)) return false;
    throw error;
  }
}

function noteRemote(ctx: StepContext, seen: RemoteProbe): void {
  const fact = remoteFact(ctx, seen);
  const before = ctx.lane.facts.remote;
  if (fact !== before && fact === 'exited') ctx.log.info('remote exited by itself', { probe: seen });
  if (fact !== before && fact === 'failed') {
    ctx.log.warn('remote not running', { probe: seen });
    ctx.amend({ set: { lastError: { at: ctx.now, step: 'remote', message: howItEnded(seen) } } });
  }
  if (fact !== 'running') {
    ctx.lane.facts = withoutHealth(ctx.lane.facts, fact);
    return;
  }
  const healthySince = ctx.lane.facts.healthySince ?? ctx.now;
  ctx.facts({ sandbox: 'running', remote: 'running', healthySince, looksSinceExit: 0 });
  if (seen.kind === 'running' && seen.launchId !== ctx.record.remote?.launchId) {
    ctx.amend({ set: { remote: { launchId: seen.launchId, pid: seen.pid, launchedAt: ctx.now } } });
  }
  if (ctx.now - healthySince >= ctx.deps.rules.healthyAfterMs) forgetFailures(ctx);
}

function withoutHealth(
  facts: StepContext['lane']['facts'],
  remote: RemoteFact,
): StepContext['lane']['facts'] {
  const { healthySince: _, ...rest } = facts;
  return { ...rest, sandbox: 'running', remote };
}

/** An exit code counts only when it is that of the launch we remember: an older one says nothing of this one. */
function remoteFact(ctx: StepContext, seen: RemoteProbe): RemoteFact {
  switch (seen.kind) {
    case 'running':
      return 'running';
    case 'gone':
      return 'failed';
    case 'exited':
      return seen.exitCode === 0 && seen.launchId === ctx.record.remote?.launchId ? 'exited' : 'failed';
  }
}

function howItEnded(seen: RemoteProbe): string {
  return seen.kind === 'exited'
    ? `it ended with exit code ${seen.exitCode}`
    : 'it is gone without an exit code: killed, or its container has restarted';
}

function forgetFailures(ctx: StepContext): void {
  if (ctx.record.launches > 1) ctx.amend({ set: { launches: 1 } });
  if (ctx.deps.index.failures(ctx.lane.name) !== undefined) ctx.deps.index.clearFailures(ctx.lane.name);
}
