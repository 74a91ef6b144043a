/** The platform as one daemon reaches it: `SandboxProvider` with the network's faults. */
import { ProviderError, type SandboxProvider } from '../../src/sandboxes/provider.ts';
import type { Call } from '../../src/lib/deadline.ts';
import type { Draw } from './draw.ts';
import type { Line } from './line.ts';
import { archiveInfoOf, infoOf, type PlatformWorld } from './platform-world.ts';

const QUICK = [10, 400] as const;
const CREATE = [200, 3_000] as const;

/** "Too many" is only said of what did not happen. */
function platformFailure(draw: Draw, happened: 'happened' | 'not'): ProviderError {
  return happened === 'happened' || draw.chance(0.9)
    ? new ProviderError('ambiguous', 'unavailable')
    : new ProviderError('exhausted', 'too many requests', { retryAfterMs: 2_000 });
}

export function platformPort(platform: PlatformWorld, line: Line): SandboxProvider {
  const ask = <T>(
    operation: string,
    subject: string,
    latencyMs: readonly [number, number],
    call: Call,
    effect: () => T | Promise<T>,
    failure: (draw: Draw, happened: 'happened' | 'not') => unknown = platformFailure,
  ): Promise<T> =>
    line.call(call, {
      operation: `platform.${operation}`,
      subject,
      latencyMs,
      reach: 'network',
      effect,
      failure,
    });
  // A sandbox id depends on how many were made before, which would tie every draw to every other.
  const subjectOf = (id: string): string => platform.sandboxes.get(id)?.tags[0] ?? id;
  const looks = new Map<string, number>();
  const notHere = (): never => {
    throw new Error('the motor does not run commands or move files by itself');
  };
  return {
    name: 'simulated',
    capabilities: {
      egressRules: true,
      listLagMs: platform.habits.listLagMs,
      ...(platform.habits.lifetimeMs === undefined ? {} : { lifetimeMs: platform.habits.lifetimeMs }),
    },
    list: (query, call) =>
      ask('list', query.tags.join('+'), QUICK, call, () => {
        // Where archives are looked for it is for ended ones too.
        if (query.include === 'active') for (const tag of query.tags) looks.set(tag, line.clock.now());
        return platform.list(query.tags, query.include);
      }),
    get: (id, call) => ask('get', subjectOf(id), QUICK, call, () => infoOf(platform.get(id))),
    create: (request, call) => {
      const [name = ''] = request.tags;
      const asked = { askedAt: line.clock.now(), lookedAt: looks.get(name) ?? 0 };
      return ask('create', name, CREATE, call, () =>
        infoOf(platform.create(request.tags, request.restoreFrom, asked)),
      );
    },
    snapshot: (id, call) => {
      const askedAt = line.clock.now();
      return ask(
        'snapshot',
        subjectOf(id),
        QUICK,
        call,
        async () => archiveInfoOf(await platform.archive(id, askedAt)),
        () =>
          // "Too many" is not what an archive that was begun can say.
          new ProviderError('ambiguous', 'unavailable'),
      );
    },
    snapshots: (sourceId, call) =>
      ask('snapshots', subjectOf(sourceId), QUICK, call, () => platform.archivesOf(sourceId)),
    getSnapshot: (id, call) =>
      ask('getSnapshot', id, QUICK, call, () => {
        const snapshot = platform.snapshots.get(id);
        if (snapshot === undefined) {
          throw new ProviderError('not-found', `no archive ${id}`, { reason: 'snapshot' });
        }
        return archiveInfoOf(snapshot);
      }),
    deleteSnapshot: (id, call) =>
      ask('deleteSnapshot', id, QUICK, call, () => platform.deleteArchive(id, line.daemon)),
    destroy: (id, call) =>
      ask('destroy', subjectOf(id), QUICK, call, () => {
        const sandbox = platform.sandboxes.get(id);
        if (sandbox !== undefined) platform.end(sandbox, 'destroyed', 'daemon');
      }),
    exec: notHere,
    readFile: notHere,
    writeFile: notHere,
    upload: notHere,
    logs: notHere,
    close: () => Promise.resolve(),
  };
}
