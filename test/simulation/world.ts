/**
 * The whole: one queue, one platform, sessions with users, one or two daemons, and what must hold at every moment
 * (docs/architecture.md, invariants). It judges by the outside only: volumes, archives, remotes, claims.
 */
import type { Rules } from '../../src/session/rules.ts';
import { acceptorTag, sandboxName } from '../../src/sandboxes/names.ts';
import { Coverage } from './coverage.ts';
import { Draw } from './draw.ts';
import { Faults } from './faults.ts';
import { DaemonHost } from './daemon-host.ts';
import { History } from './history.ts';
import {
  holdsVolume,
  PlatformWorld,
  type LiveRemote,
  type Sandbox,
  type Snapshot,
} from './platform-world.ts';
import { OUTPOST, type Profile } from './profile.ts';
import { QueueWorld } from './queue-world.ts';
import { User } from './users.ts';
import { Scheduler } from './virtual-clock.ts';
import type { Variant } from './variant.ts';

export interface WorldOptions {
  readonly profile: Profile;
  readonly allowed?: ReadonlySet<string>;
  readonly variant?: Variant;
  /** Only these users; undefined: all of the profile. */
  readonly users?: ReadonlySet<number>;
}

export class World {
  readonly profile: Profile;
  readonly variant: Variant | undefined;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly queue: QueueWorld;
  readonly platform: PlatformWorld;
  readonly history = new History();
  readonly coverage = new Coverage();
  readonly rules: Rules;
  readonly hosts: readonly DaemonHost[];
  readonly users = new Map<string, User>();
  readonly #paces = new Map<string, { readonly minute: number; readonly times: number }>();
  readonly #byName = new Map<string, User>();
  /** The first invariant that did not hold. */
  violation: string | undefined;
  deaths = 0;
  /** With those that were torn. */
  disksLost = 0;
  disksTorn = 0;

  constructor(options: WorldOptions) {
    const { profile } = options;
    const { seed } = profile;
    this.profile = profile;
    this.variant = options.variant;
    this.rules = options.variant?.rules?.(profile.rules) ?? profile.rules;
    this.scheduler = new Scheduler(seed);
    this.faults = new Faults(seed, profile.intensity, options.allowed);
    this.queue = new QueueWorld(this.scheduler, new Draw(seed, 'queue'), profile.queue);
    this.platform = new PlatformWorld(
      this.scheduler,
      this.faults,
      new Draw(seed, 'platform'),
      profile.platform,
    );
    this.platform.watcher = {
      onLost: (sandbox, by) => this.#onLost(sandbox, by),
      onRemoteEnded: (sandbox, remote) => this.#onRemoteEnded(sandbox, remote),
      onArchiveGone: (snapshot, by) => this.#onArchiveGone(snapshot, by),
      onCreated: (sandbox) => this.#onCreated(sandbox),
      onArchiveBegun: (snapshot) => this.#onArchiveBegun(snapshot),
    };
    for (let number = 1; number <= profile.users; number += 1) {
      if (options.users !== undefined && !options.users.has(number)) continue;
      const user = new User(this, number);
      this.users.set(user.sessionId, user);
      this.#byName.set(sandboxName(OUTPOST, user.sessionId), user);
    }
    this.hosts = profile.daemons.map((id) => new DaemonHost(this, id));
  }

  note(who: string, text: string): void {
    this.history.add(this.scheduler.elapsed, who, text);
  }

  violate(invariant: string, text: string): void {
    if (this.violation !== undefined) return;
    this.violation = `${invariant}: ${text}`;
    this.note('VIOLATION', this.violation);
  }

  userOf(sandbox: Sandbox): User | undefined {
    return this.#byName.get(sandbox.tags[0] ?? '');
  }

  sandboxesOf(user: User): readonly Sandbox[] {
    return [...this.platform.sandboxes.values()].filter((sandbox) => this.userOf(sandbox) === user);
  }

  /** The remote through which the session's user works: that of the claim that counts. */
  servedIn(user: User): Sandbox | undefined {
    const row = this.queue.rows.get(user.sessionId);
    const holder = row?.acceptorId ?? this.queue.lastHolder.get(user.sessionId);
    return this.sandboxesOf(user).find(
      (sandbox) => sandbox.remote?.alive === true && sandbox.remote.acceptorId === holder,
    );
  }

  onLaunch(sandbox: Sandbox, remote: LiveRemote): void {
    const user = this.users.get(remote.sessionId);
    this.note('world', `remote ${remote.launchId.slice(0, 6)} of ${remote.sessionId} lives in ${sandbox.id}`);
    if (user === undefined || this.userOf(sandbox) !== user) {
      this.violate(
        '4',
        `the remote of ${remote.sessionId} was started in ${sandbox.id}, which is another session's`,
      );
      return;
    }
    const mine = [...this.platform.sandboxes.values()].filter(
      (other) => other.remote?.alive === true && other.remote.acceptorId === remote.acceptorId,
    );
    const twins = mine.filter((other) => other.remote?.sessionId === remote.sessionId);
    if (twins.length > 1) {
      this.violate(
        '1',
        `two live remotes of ${remote.sessionId}: ${twins.map((twin) => twin.id).join(', ')}`,
      );
    }
    if (mine.length > this.profile.maxSessions && this.disksLost === 0) {
      this.violate('2', `${mine.length} sessions at work under ${remote.acceptorId}`);
    }
    user.onLaunch();
  }

  /** One thing about so many sessions, done again and again without getting anywhere, is a loop. */
  pace(what: string, sessions: number): void {
    const minute = Math.floor(this.scheduler.elapsed / 60_000);
    const known = this.#paces.get(what);
    const times = known?.minute === minute ? known.times + 1 : 1;
    this.#paces.set(what, { minute, times });
    if (times > MOST_A_MINUTE * sessions) this.violate('loop', `${what}: ${times} times in a minute`);
  }

  /** Checked after everything that happens. */
  check(): void {
    for (const host of this.hosts) {
      const used = host.motor?.gate.used ?? 0;
      if (used > this.profile.maxSessions && !host.lostDisk)
        this.violate('2', `${host.id} uses ${used} slots`);
    }
  }

  /** Something that holds all that the session may expect to find again. */
  #isKept(user: User, but?: Sandbox): boolean {
    return (
      user.expected.size === 0 || this.#places(user, but).some((files) => isWithin(user.expected, files))
    );
  }

  *#volumes(user: User, but?: Sandbox): Iterable<ReadonlySet<string>> {
    for (const sandbox of this.sandboxesOf(user)) {
      if (sandbox !== but && holdsVolume(sandbox)) yield sandbox.volume.files;
    }
    for (const snapshot of this.platform.snapshots.values()) {
      if (snapshot.state === 'ready' && this.userOf(snapshot.source) === user) yield snapshot.volume.files;
    }
  }

  #places(user: User, but?: Sandbox): readonly ReadonlySet<string>[] {
    return [...this.#volumes(user, but)];
  }

  #onLost(sandbox: Sandbox, by: 'daemon' | 'platform'): void {
    this.note('world', `${sandbox.id} ended by the ${by}: ${sandbox.reason}`);
    const user = this.userOf(sandbox);
    if (user === undefined || user.isOver(this.rules.retentionMs)) return;
    if (this.#isKept(user, sandbox)) return;
    if (by === 'daemon') {
      this.violate('4', `${sandbox.id} was destroyed with the only copy of ${describe(user)}`);
      return;
    }
    // The platform took it: what the best archive or volume left holds is what may be expected.
    let best: ReadonlySet<string> = new Set();
    for (const files of this.#places(user, sandbox)) {
      const common = user.expected.intersection(files);
      if (common.size > best.size) best = common;
    }
    this.note('world', `${user.sessionId} may expect ${best.size} of ${user.expected.size} files`);
    user.expected = new Set(best);
  }

  /** The daemon stopped a remote whose user was at work, because the status flashed. */
  #onRemoteEnded(sandbox: Sandbox, remote: LiveRemote): void {
    const user = this.userOf(sandbox);
    if (remote.exitCode !== STOPPED || user?.state !== 'waiting' || user.flashedAt === undefined) return;
    if (this.scheduler.now - user.flashedAt > 6_000) return;
    for (const host of this.hosts.filter((one) => one.acceptorId === remote.acceptorId)) {
      const { ending, order } = host.motor?.records.get(sandbox.tags[0] ?? '') ?? {};
      if (ending === 'suspend' && order === undefined)
        this.violate('flash', `${user.sessionId} was at work in ${sandbox.id} and was stopped`);
    }
  }

  /** A daemon that remembers what it asked for finds it, and does not ask again. */
  #onCreated(sandbox: Sandbox): void {
    this.userOf(sandbox)?.setAside.delete(sandbox.restoredFrom ?? '');
    if (this.disksLost > 0) return;
    const [name] = sandbox.tags;
    for (const other of this.platform.sandboxes.values()) {
      if (other.tags[0] !== name || other.tags[2] !== sandbox.tags[2]) continue;
      if (!holdsVolume(other) || other.createdAt >= sandbox.askedAt) continue;
      // One that came long after its asker had given up cannot have been waited for.
      if (other.createdAt - other.askedAt > 10_000) continue;
      // Of a request that arrived twice, and was answered, nobody knows the other one before lists show it.
      if (this.#hasTwin(other) && other.listedAt > sandbox.lookedAt) continue;
      this.violate('P2', `${sandbox.id} was asked for although ${other.id} was there`);
    }
  }

  #hasTwin(sandbox: Sandbox): boolean {
    const [, , , createTag] = sandbox.tags;
    return [...this.platform.sandboxes.values()].some(
      (other) => other !== sandbox && createTag !== undefined && other.tags[3] === createTag,
    );
  }

  #onArchiveGone(snapshot: Snapshot, by: string): void {
    this.note('world', `${snapshot.id} deleted`);
    const user = this.userOf(snapshot.source);
    if (user === undefined || user.isOver(this.rules.retentionMs)) return;
    // A daemon that lost its disk, or another one, does not know that nothing came of it.
    const isKnown = this.hosts.length === 1 && this.disksLost === 0 && this.rules.suspendMode !== 'discard';
    if (isKnown && user.setAside.has(snapshot.id) && snapshot.wasReady)
      this.violate('5', `${snapshot.id} was deleted although nothing was ever restored from it`);
    if (!this.#isKept(user)) {
      this.violate('5', `${snapshot.id} was deleted with the only copy of ${describe(user)}`);
    }
    for (const host of this.hosts.filter((one) => one.id === by)) {
      for (const [, record] of host.motor?.records.entries() ?? []) {
        if (record.archive?.snapshotId !== snapshot.id || record.stage === 'terminating') continue;
        this.violate('5', `${snapshot.id} was deleted, but ${host.id} needs it for ${record.sessionId}`);
      }
    }
  }

  /** By when it was asked for: a request that arrives after its asker has given up begins one that nobody can stop. */
  #onArchiveBegun(snapshot: Snapshot): void {
    const old = snapshot.askedAt - 65_000;
    for (const other of this.platform.snapshots.values()) {
      if (other === snapshot || other.source !== snapshot.source) continue;
      if (other.state === 'creating' && other.createdAt < old) {
        this.violate('S2', `${snapshot.id} was begun beside ${other.id}`);
      }
    }
  }

  #isMaker(sandbox: Sandbox): boolean {
    const { marker } = sandbox.volume;
    return marker !== undefined && sandbox.tags.includes(acceptorTag(marker.acceptorId));
  }

  /** A launch that starts with an empty volume because the archive cannot be restored says so in the log. */
  onStartsEmpty(sessionId: string, archive: string): void {
    const user = this.users.get(sessionId);
    if (user === undefined) return;
    if (!user.isOrderedToGo) user.setAside.add(archive);
    user.expectNothing();
  }

  /** What is left over when every session has ended; empty: nothing. */
  leftovers(): readonly string[] {
    const left: string[] = [];
    for (const sandbox of this.platform.sandboxes.values()) {
      // A daemon that lost its disk finds what it made by its tag, but not what it took over.
      if (this.disksLost > 0 && sandbox.volume.marker !== undefined && !this.#isMaker(sandbox)) continue;
      if (holdsVolume(sandbox))
        left.push(`${sandbox.id} (${sandbox.state}) of ${this.userOf(sandbox)?.sessionId}`);
    }
    for (const snapshot of this.platform.snapshots.values()) {
      if (this.disksLost === 0) left.push(`${snapshot.id} of ${this.userOf(snapshot.source)?.sessionId}`);
    }
    for (const row of this.queue.rows.values()) {
      if (row.phase === 'claimed') left.push(`claim of ${row.acceptorId} on ${row.sessionId}`);
    }
    for (const host of this.hosts) {
      for (const [, record] of host.motor?.records.entries() ?? []) {
        left.push(`record of ${record.sessionId} at ${host.id}: ${record.stage}`);
      }
    }
    return left;
  }
}

/** Twice the pace of the busiest wait, a create that may not show yet. */
const MOST_A_MINUTE = 45;

/** The exit code of a remote that was told to stop. */
const STOPPED = 143;

function isWithin(wanted: ReadonlySet<string>, files: ReadonlySet<string>): boolean {
  return wanted.isSubsetOf(files);
}

function describe(user: User): string {
  return `what ${user.sessionId} wrote (${user.expected.size} files)`;
}
