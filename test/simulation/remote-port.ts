/**
 * devin-remote in the sandboxes, as one daemon reaches it: marker and binaries live in the volume, the remote in the
 * container, one at a time by a lock.
 */
import { DvoError } from '../../src/lib/errors.ts';
import type { Call } from '../../src/lib/deadline.ts';
import type { RemoteControl, Target } from '../../src/remote/port.ts';
import { ProviderError } from '../../src/sandboxes/provider.ts';
import type { Draw } from './draw.ts';
import type { Line } from './line.ts';
import type { LiveRemote, PlatformWorld, Sandbox } from './platform-world.ts';
import type { QueueWorld } from './queue-world.ts';

const SCRIPT = [80, 900] as const;
const PREPARE = [500, 6_000] as const;

export interface RemotePortOptions {
  readonly platform: PlatformWorld;
  readonly queue: QueueWorld;
  readonly line: Line;
  readonly onLaunch: (sandbox: Sandbox, remote: LiveRemote) => void;
}

function remoteFailure(draw: Draw): DvoError {
  return draw.chance(0.5)
    ? new DvoError('remote', 'the script did not end in its marker')
    : new ProviderError('ambiguous', 'the stream was cut');
}

export function remotePort(options: RemotePortOptions): RemoteControl {
  const { platform, queue, line, onLaunch } = options;
  const run = <T>(
    operation: string,
    target: Target,
    latencyMs: readonly [number, number],
    call: Call,
    effect: (sandbox: Sandbox) => T,
  ): Promise<T> =>
    line.call(call, {
      operation: `remote.${operation}`,
      subject: platform.sandboxes.get(target.sandboxId)?.tags[0] ?? target.sandboxId,
      latencyMs,
      reach: 'stream',
      effect: () => effect(platform.running(target.sandboxId)),
      failure: remoteFailure,
    });
  return {
    resolve: (pinned, call) =>
      line.call(call, {
        operation: 'remote.resolve',
        subject: '-',
        latencyMs: SCRIPT,
        reach: 'network',
        effect: () => ({
          sha: pinned ?? 'abc1234',
          url: 'https://static.test/remote',
          sha256: 'ab'.repeat(32),
        }),
        failure: () => new DvoError('distribution', 'the binary host does not answer'),
      }),
    readMarker: (target, call) => run('marker', target, SCRIPT, call, (sandbox) => sandbox.volume.marker),
    prepare: (target, request, call) =>
      run('prepare', target, PREPARE, call, (sandbox) => {
        const { volume, id } = sandbox;
        const { binary, marker, replaces } = request;
        const owner = volume.marker?.sandboxId === id ? volume.marker.acceptorId : undefined;
        if (owner !== undefined && owner !== marker.acceptorId && owner !== replaces) {
          return { kind: 'foreign' as const };
        }
        const downloaded = !volume.binaries.has(binary.sha);
        volume.marker = marker;
        if (volume.condemned === id) return { kind: 'condemned' as const };
        volume.binaries.add(binary.sha);
        return { kind: 'prepared' as const, downloaded, notes: [] };
      }),
    async condemn(target, call) {
      await run('condemn', target, SCRIPT, call, (sandbox) => {
        sandbox.volume.condemned = sandbox.id;
      });
      return await run('marker', target, SCRIPT, call, (sandbox) => sandbox.volume.marker);
    },
    spare: (target, call) =>
      run('spare', target, SCRIPT, call, (sandbox) => {
        sandbox.volume.condemned = undefined;
      }),
    launch: (target, request, call) =>
      run('launch', target, SCRIPT, call, (sandbox) => {
        const { remote } = sandbox;
        if (remote?.alive === true) return { launchId: remote.launchId, pid: remote.pid, adopted: true };
        if (!sandbox.volume.binaries.has(request.sha)) {
          throw new DvoError('remote', `there is no binary ${request.sha} in the sandbox`);
        }
        const token = request.connectToken.reveal();
        const claim = queue.tokens.get(token);
        if (claim === undefined) throw new DvoError('remote', 'the connect token is not known');
        const started: LiveRemote = {
          launchId: request.launchId,
          pid: 100 + claim.serial,
          sessionId: request.sessionId,
          token,
          acceptorId: claim.acceptorId,
          alive: true,
          exitCode: undefined,
        };
        sandbox.remote = started;
        onLaunch(sandbox, started);
        return { launchId: started.launchId, pid: started.pid, adopted: false };
      }),
    probe: (target, call) =>
      run('probe', target, SCRIPT, call, ({ remote }) => {
        if (remote === undefined) return { kind: 'gone' as const };
        const { launchId, pid, exitCode } = remote;
        if (remote.alive) return { kind: 'running' as const, launchId, pid };
        return exitCode === undefined
          ? { kind: 'gone' as const }
          : { kind: 'exited' as const, launchId, exitCode };
      }),
    stop: (target, launchId, call) =>
      run('stop', target, SCRIPT, call, (sandbox) => {
        if (launchId === undefined || sandbox.remote?.launchId === launchId) platform.endRemote(sandbox, 143);
      }),
  };
}
