/**
 * The platform: sandboxes with volumes, archives of volumes, and all the ways in which they come up, break and end.
 * Shared by all daemons. Sandboxes have tags, no names.
 */
import {
  ProviderError,
  type SandboxInfo,
  type SandboxState,
  type SnapshotInfo,
  type SnapshotState,
} from '../../src/sandboxes/provider.ts';
import type { Marker } from '../../src/remote/port.ts';
import type { Draw } from './draw.ts';
import type { Faults } from './faults.ts';
import type { Scheduler } from './virtual-clock.ts';

export interface Volume {
  /** Paths of the files that sessions wrote. */
  readonly files: Set<string>;
  marker: Marker | undefined;
  /** Id of the sandbox that is about to be destroyed. */
  condemned: string | undefined;
  readonly binaries: Set<string>;
}

export interface LiveRemote {
  readonly launchId: string;
  readonly pid: number;
  readonly sessionId: string;
  readonly token: string;
  readonly acceptorId: string;
  alive: boolean;
  exitCode: number | undefined;
}

export interface Sandbox {
  readonly id: string;
  readonly tags: readonly string[];
  state: SandboxState;
  reason: string | undefined;
  /** Lists show it from then on. */
  readonly listedAt: number;
  readonly createdAt: number;
  /** When its daemon asked for it. */
  readonly askedAt: number;
  /** When that daemon, in this life, had last looked for others of its name. */
  readonly lookedAt: number;
  readonly restoredFrom: string | undefined;
  startedAt: number | undefined;
  endedAt: number | undefined;
  readonly volume: Volume;
  /** What runs in the current container. */
  remote: LiveRemote | undefined;
}

export interface Snapshot {
  readonly id: string;
  readonly source: Sandbox;
  readonly createdAt: number;
  /** When its daemon asked for it. */
  readonly askedAt: number;
  readonly listedAt: number;
  state: SnapshotState;
  /** It could have been restored. */
  wasReady: boolean;
  reason: string | undefined;
  readonly volume: Volume;
}

export interface PlatformHabits {
  readonly listLagMs: number;
  readonly lifetimeMs: number | undefined;
  readonly archives: 'supported' | 'unsupported';
  /** An ended sandbox cannot be asked for any more after this long; undefined: it always can. */
  readonly forgetsAfterMs: number | undefined;
  readonly bootMs: readonly [number, number];
  readonly archiveMs: readonly [number, number];
}

/** What the world wants to hear of. */
export interface PlatformWatcher {
  /** The sandbox's volume is gone; `by` says who ended it. */
  onLost(sandbox: Sandbox, by: 'daemon' | 'platform'): void;
  onRemoteEnded(sandbox: Sandbox, remote: LiveRemote): void;
  onArchiveGone(snapshot: Snapshot, by: string): void;
  onCreated(sandbox: Sandbox): void;
  onArchiveBegun(snapshot: Snapshot): void;
}

const ENDING_MS = 4_000;

export class PlatformWorld {
  readonly habits: PlatformHabits;
  readonly #scheduler: Scheduler;
  readonly #faults: Faults;
  readonly #draw: Draw;
  readonly sandboxes = new Map<string, Sandbox>();
  readonly snapshots = new Map<string, Snapshot>();
  readonly #refusedUntil = new Map<string, number>();
  #watcher: PlatformWatcher | undefined;
  #made = 0;
  #archives = 0;

  constructor(scheduler: Scheduler, faults: Faults, draw: Draw, habits: PlatformHabits) {
    this.#scheduler = scheduler;
    this.#faults = faults;
    this.#draw = draw;
    this.habits = habits;
  }

  set watcher(watcher: PlatformWatcher) {
    this.#watcher = watcher;
  }

  list(tags: readonly string[], include: 'active' | 'all'): readonly SandboxInfo[] {
    const { now } = this.#scheduler;
    return [...this.sandboxes.values()]
      .filter((sandbox) => sandbox.listedAt <= now)
      .filter((sandbox) => include === 'all' || sandbox.state !== 'ended')
      .filter((sandbox) => tags.every((tag) => sandbox.tags.includes(tag)))
      .map((sandbox) => infoOf(sandbox));
  }

  get(id: string): Sandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined || this.#isForgotten(sandbox))
      throw new ProviderError('not-found', `no sandbox ${id}`, { reason: 'sandbox' });
    return sandbox;
  }

  #isForgotten(sandbox: Sandbox): boolean {
    const { forgetsAfterMs } = this.habits;
    if (sandbox.state !== 'ended' || forgetsAfterMs === undefined) return false;
    return this.#scheduler.now - (sandbox.endedAt ?? 0) >= forgetsAfterMs;
  }

  /** @throws ProviderError `gone` */
  running(id: string): Sandbox {
    const sandbox = this.get(id);
    if (sandbox.state !== 'running') throw new ProviderError('gone', `sandbox ${id} is ${sandbox.state}`);
    return sandbox;
  }

  create(
    tags: readonly string[],
    restoreFrom: string | undefined,
    asked: Pick<Sandbox, 'askedAt' | 'lookedAt'>,
  ): Sandbox {
    const volume = this.#initialVolume(restoreFrom);
    this.#made += 1;
    const { now } = this.#scheduler;
    const sandbox: Sandbox = {
      id: `sandbox-${this.#made}`,
      tags,
      state: 'starting',
      reason: undefined,
      listedAt: now + this.#draw.between(0, this.habits.listLagMs),
      createdAt: now,
      ...asked,
      restoredFrom: restoreFrom,
      startedAt: undefined,
      endedAt: undefined,
      volume,
      remote: undefined,
    };
    this.#watcher?.onCreated(sandbox);
    this.sandboxes.set(sandbox.id, sandbox);
    this.#boot(sandbox);
    return sandbox;
  }

  #initialVolume(restoreFrom: string | undefined): Volume {
    if (restoreFrom === undefined)
      return { files: new Set(), marker: undefined, condemned: undefined, binaries: new Set() };
    const snapshot = this.snapshots.get(restoreFrom);
    if (snapshot === undefined) {
      throw new ProviderError('not-found', `no archive ${restoreFrom}`, { reason: 'snapshot' });
    }
    if (snapshot.state !== 'ready' || this.#isRefused(restoreFrom)) {
      throw new ProviderError('archive-failed', `archive ${restoreFrom} cannot be restored`);
    }
    return copyOf(snapshot.volume);
  }

  /** Once, or for a while: an archive that cannot be restored now may be restored later. */
  #isRefused(id: string): boolean {
    const { now } = this.#scheduler;
    if (now < (this.#refusedUntil.get(id) ?? 0)) return true;
    const trouble = this.#faults.chance('restore-fails', id, this.#faults.intensity.platform / 2);
    if (trouble !== undefined) this.#refusedUntil.set(id, now + trouble.pick([0, 30_000, 600_000, 600_000]));
    return trouble !== undefined;
  }

  #boot(sandbox: Sandbox): void {
    const trouble = this.#faults.chance('boot', sandbox.id, this.#faults.intensity.platform);
    const kind = trouble?.pick(['fails', 'slow', 'slow', 'never'] as const);
    if (kind === 'never') return;
    const [low, high] = this.habits.bootMs;
    const wait = kind === 'slow' ? this.#draw.between(60_000, 200_000) : this.#draw.between(low, high);
    this.#scheduler.after(wait, () => {
      if (sandbox.state !== 'starting') return;
      if (kind === 'fails') {
        this.end(sandbox, 'the image did not start', 'platform');
        return;
      }
      sandbox.state = 'running';
      sandbox.startedAt = this.#scheduler.now;
      const { lifetimeMs } = this.habits;
      if (lifetimeMs === undefined) return;
      this.#scheduler.after(lifetimeMs, () => this.end(sandbox, 'its lifetime is over', 'platform'));
    });
  }

  /** Its volume is lost in this moment. */
  end(sandbox: Sandbox, reason: string, by: 'daemon' | 'platform'): void {
    if (sandbox.state === 'ended' || sandbox.state === 'ending') return;
    sandbox.reason = reason;
    sandbox.state = by === 'daemon' ? 'ending' : 'ended';
    sandbox.endedAt = this.#scheduler.now;
    this.endRemote(sandbox, undefined);
    if (by === 'daemon') {
      this.#scheduler.after(this.#draw.between(0, ENDING_MS), () => {
        sandbox.state = 'ended';
      });
    }
    this.#watcher?.onLost(sandbox, by);
  }

  /** @param exitCode undefined: it was killed, with no trace */
  endRemote(sandbox: Sandbox, exitCode: number | undefined): void {
    const { remote } = sandbox;
    if (remote === undefined || !remote.alive) return;
    remote.alive = false;
    remote.exitCode = exitCode;
    this.#watcher?.onRemoteEnded(sandbox, remote);
  }

  /** Same sandbox, same volume; everything else is as at the first start. */
  restartContainer(sandbox: Sandbox): void {
    this.endRemote(sandbox, undefined);
    sandbox.remote = undefined;
  }

  /** Resolves when the archive is ready or failed. */
  async archive(id: string, askedAt: number): Promise<Snapshot> {
    const sandbox = this.running(id);
    if (this.habits.archives === 'unsupported') {
      throw new ProviderError('unsupported', 'archives are not enabled for this organization');
    }
    this.#archives += 1;
    const { now } = this.#scheduler;
    const snapshot: Snapshot = {
      id: `archive-${this.#archives}`,
      source: sandbox,
      createdAt: now,
      askedAt,
      listedAt: now + this.#draw.between(0, 3_000),
      state: 'creating',
      wasReady: false,
      reason: undefined,
      volume: copyOf(sandbox.volume),
    };
    this.snapshots.set(snapshot.id, snapshot);
    this.#watcher?.onArchiveBegun(snapshot);
    const trouble = this.#faults.chance('archive', sandbox.id, this.#faults.intensity.platform);
    const kind = trouble?.pick(['fails', 'fails', 'slow', 'slow'] as const);
    const [low, high] = this.habits.archiveMs;
    await this.#scheduler.pause(
      kind === 'slow' ? this.#draw.between(high, high + 200_000) : this.#draw.between(low, high),
    );
    // One that was deleted meanwhile stays deleted.
    if (snapshot.state === 'creating') {
      const cut = sandbox.state !== 'running' && this.#draw.chance(0.5);
      snapshot.state = kind === 'fails' || cut ? 'failed' : 'ready';
      snapshot.wasReady = snapshot.state === 'ready';
      snapshot.reason = snapshot.state === 'failed' ? 'the archive broke off' : undefined;
    }
    if (snapshot.state === 'failed') throw new ProviderError('archive-failed', 'the archive broke off');
    return snapshot;
  }

  archivesOf(sourceId: string): readonly SnapshotInfo[] {
    const { now } = this.#scheduler;
    return [...this.snapshots.values()]
      .filter((snapshot) => snapshot.source.id === sourceId && snapshot.listedAt <= now)
      .map((snapshot) => archiveInfoOf(snapshot));
  }

  /** @param by the daemon that asks */
  deleteArchive(id: string, by: string): void {
    const snapshot = this.snapshots.get(id);
    if (snapshot === undefined) return;
    this.snapshots.delete(id);
    snapshot.state = 'deleting';
    this.#watcher?.onArchiveGone(snapshot, by);
  }
}

export function infoOf(sandbox: Sandbox): SandboxInfo {
  return {
    id: sandbox.id,
    state: sandbox.state,
    ...(sandbox.reason === undefined ? {} : { reason: sandbox.reason }),
    ...(sandbox.startedAt === undefined ? {} : { startedAt: sandbox.startedAt }),
    paths: { volume: '/workspace', run: '/run/dvo' },
  };
}

export function archiveInfoOf(snapshot: Snapshot): SnapshotInfo {
  return {
    id: snapshot.id,
    state: snapshot.state,
    ...(snapshot.reason === undefined ? {} : { reason: snapshot.reason }),
    sourceSandboxId: snapshot.source.id,
    createdAt: snapshot.createdAt,
  };
}

function copyOf(volume: Volume): Volume {
  return {
    files: new Set(volume.files),
    marker: volume.marker,
    condemned: volume.condemned,
    binaries: new Set(volume.binaries),
  };
}

/** Up, or on its way up: what it holds is not lost. */
export function holdsVolume(sandbox: Sandbox): boolean {
  return sandbox.state === 'running' || sandbox.state === 'starting';
}
