/** RemoteControl over a provider's exec: puts the parts together. */
import { z } from 'zod';
import type { Clock, Random } from '../lib/clock.ts';
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import type { Fetch } from '../lib/fetch.ts';
import type { Secret } from '../lib/secret.ts';
import { isProviderError, type SandboxProvider } from '../sandboxes/provider.ts';
import { BinaryCache } from './binary-cache.ts';
import { Distribution } from './distribution.ts';
import { launchRemote } from './launch.ts';
import { placesIn } from './places.ts';
import type { Marker, RemoteControl, Target } from './port.ts';
import { prepareSandbox, type Delivery } from './prepare.ts';
import { probeRemote } from './probe.ts';
import { cloneRepos } from './repos.ts';
import { ScriptRunner } from './script.ts';
import { stopRemote } from './stop.ts';

export interface RemoteSettings {
  readonly staticBaseUrl: string;
  readonly sha?: string;
  readonly delivery: Delivery;
  /** Where the daemon keeps builds that it uploads. */
  readonly cacheDir: string;
  readonly workdir?: string;
  readonly home?: string;
  readonly user?: string;
  readonly repos: readonly string[];
  readonly gitUsername: string;
  readonly gitToken?: () => Secret;
  readonly chromePath?: string;
  readonly desktop: boolean;
}

export interface RemoteOptions {
  readonly provider: SandboxProvider;
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: Fetch;
  readonly settings: RemoteSettings;
}

const MARKER = z.object({
  version: z.literal(1),
  sessionId: z.string(),
  outpostId: z.string(),
  acceptorId: z.string(),
  name: z.string(),
  sandboxId: z.string(),
});

export function createRemoteControl(options: RemoteOptions): RemoteControl {
  const { provider, clock, random, fetch, settings } = options;
  const scripts = new ScriptRunner(provider, random);
  const { user } = settings;
  const distribution = new Distribution({
    fetch,
    clock,
    random,
    baseUrl: settings.staticBaseUrl,
    sha: settings.sha,
  });
  const cache = new BinaryCache({ provider, clock, fetch, random, folder: settings.cacheDir });
  const { repos, gitUsername, gitToken } = settings;
  const cloning = { repos, gitUsername, gitToken, user };
  return {
    resolve: (pinnedSha, call) => distribution.resolve(pinnedSha, call),
    readMarker: (target, call) => readMarker(provider, target.sandboxId, target.paths.volume, call),
    async prepare(target, request, call) {
      const places = placesIn(target.paths, settings);
      const preparing = { scripts, cache, delivery: settings.delivery, user };
      const report = await prepareSandbox(preparing, target, places, request, call);
      if (report.kind !== 'prepared') return report;
      const cloned = await cloneRepos(scripts, cloning, target, places, call);
      return { ...report, notes: [...report.notes, ...cloned] };
    },
    async condemn(target, call) {
      await provider.writeFile(target.sandboxId, condemnedFile(target), Buffer.from(target.sandboxId), call);
      return await readMarker(provider, target.sandboxId, target.paths.volume, call);
    },
    spare: (target, call) =>
      provider.writeFile(target.sandboxId, condemnedFile(target), Buffer.from(''), call),
    launch: (target, request, call) =>
      launchRemote(
        { scripts, user, chromePath: settings.chromePath, desktop: settings.desktop },
        target,
        placesIn(target.paths, settings),
        request,
        call,
      ),
    probe: (target, call) => probeRemote(scripts, target, call),
    stop: (target, launchId, call) => stopRemote(scripts, target, launchId, call),
  };
}

/** It holds the id of the sandbox that is meant: an archive carries the file on into others. */
function condemnedFile(target: Target): string {
  return `${target.paths.volume}/.dvo/condemned`;
}

/**
 * Undefined only when there is no marker file. A damaged one proves that something was put into the volume, so it must
 * never pass for none.
 */
async function readMarker(
  provider: SandboxProvider,
  sandboxId: string,
  volume: string,
  call: Call,
): Promise<Marker | undefined> {
  try {
    const bytes = await provider.readFile(sandboxId, `${volume}/.dvo/session.json`, call);
    return MARKER.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (error) {
    if (isProviderError(error, 'not-found') && error.reason === 'file') return undefined;
    if (error instanceof SyntaxError || error instanceof z.ZodError) {
      throw new DvoError('remote', 'the marker in the volume is damaged', { cause: error });
    }
    throw error;
  }
}
