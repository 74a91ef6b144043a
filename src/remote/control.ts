/** RemoteControl over a provider's exec: puts the parts together. */
import type { Clock, Random } from '../lib/clock.ts';
import type { Fetch } from '../lib/fetch.ts';
import type { Secret } from '../lib/secret.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import { BinaryCache } from './binary-cache.ts';
import { Distribution } from './distribution.ts';
import { launchRemote } from './launch.ts';
import { readMarker } from './marker.ts';
import { placesIn } from './places.ts';
import type { RemoteControl, Target } from './port.ts';
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
    readMarker: (target, call) => readMarker(scripts, target, call),
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
      return await readMarker(scripts, target, call);
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
