/**
 * One session's life as its user makes it: it waits for a machine, works (writes numbered files), sleeps, wakes and
 * ends. The user also checks, whenever a new remote serves, that everything is still there.
 */
import { ORDERS } from '../../src/session/session.ts';
import type { DaemonHost } from './daemon-host.ts';
import { Draw } from './draw.ts';
import type { Sandbox } from './platform-world.ts';
import type { World } from './world.ts';

type State = 'before' | 'waiting' | 'falling-asleep' | 'asleep' | 'over';

export class User {
  readonly #world: World;
  readonly #draw: Draw;
  readonly sessionId: string;
  /** Files that must be there when it is served again. */
  expected: Set<string> = new Set();
  /** Archives that could not be restored; what they hold is expected no more, but must not be deleted. */
  readonly setAside = new Set<string>();
  #state: State = 'before';
  #written = 0;
  /** Files until it sleeps or ends. */
  #goal = 0;
  #naps: number;
  #servedBy: object | undefined;
  #restingSince: number | undefined;
  #doneAt: number | undefined;
  /** When `suspended` last showed up although it went on. */
  flashedAt: number | undefined;
  /** Whose order to delete everything may still be carried out. */
  readonly #orderedGone = new Set<DaemonHost>();
  /** What it waits for began then. */
  waitsSince = 0;

  constructor(world: World, number: number) {
    this.#world = world;
    this.#draw = new Draw(world.profile.seed, 'user', number);
    this.sessionId = `devin-session-${number}`;
    this.#naps = this.#draw.between(0, world.profile.naps);
    this.#goal = this.#draw.between(1, world.profile.files);
    world.scheduler.after(this.#draw.between(0, world.profile.arrivalMs), () => this.#arrive());
  }

  get done(): boolean {
    return this.#doneAt !== undefined;
  }

  get state(): State {
    return this.#state;
  }

  /** Nothing of it needs to be kept any more. */
  isOver(retentionMs: number): boolean {
    if (this.#state === 'over') return true;
    return this.#restingSince !== undefined && this.#world.scheduler.now - this.#restingSince >= retentionMs;
  }

  expectNothing(): void {
    this.expected = new Set();
  }

  onLaunch(): void {
    this.#world.scheduler.after(this.#draw.between(200, 2_000), () => this.#act());
  }

  #arrive(): void {
    this.#state = 'waiting';
    this.waitsSince = this.#world.scheduler.now;
    this.#world.note(this.sessionId, 'wants a machine');
    this.#world.queue.enqueue(this.sessionId, 'new');
    this.#later();
  }

  #later(): void {
    const { profile, scheduler } = this.#world;
    scheduler.after(this.#draw.between(...profile.paceMs), () => {
      if (this.#state === 'over') return;
      this.#order();
      this.#act();
      this.#later();
    });
  }

  /** A person has enough of it. */
  #order(): void {
    const { faults, profile, hosts } = this.#world;
    const draw = faults.chance('order', this.sessionId, profile.orders);
    if (draw === undefined) return;
    const host = draw.pick(hosts);
    const order = host.order(this.sessionId, draw.pick(ORDERS));
    if (order !== 'terminate') return;
    this.expectNothing();
    this.setAside.clear();
    this.#orderedGone.add(host);
  }

  get isOrderedToGo(): boolean {
    return this.#orderedGone.size > 0;
  }

  /** What is written in there may go any moment: its daemon has been told to delete everything. */
  #isOrderedGone({ remote }: Sandbox): boolean {
    for (const host of this.#orderedGone) {
      if (host.mayYetDo(this.sessionId, 'terminate')) {
        if (host.acceptorId === remote?.acceptorId) return true;
      } else this.#orderedGone.delete(host);
    }
    return false;
  }

  #act(): void {
    const { queue, platform, faults, profile } = this.#world;
    const sandbox = this.#world.servedIn(this);
    if (this.#state === 'over' && sandbox !== undefined) platform.endRemote(sandbox, 0);
    if (this.#state !== 'waiting' || sandbox === undefined) return;
    if (this.#servedBy !== sandbox.remote) {
      this.#servedBy = sandbox.remote;
      this.#checkFiles(sandbox);
    }
    queue.setStatus(this.sessionId, 'running');
    this.#written += 1;
    const file = `${this.sessionId}/${this.#written}`;
    sandbox.volume.files.add(file);
    if (!this.#isOrderedGone(sandbox)) this.expected.add(file);
    this.#goal -= 1;
    this.waitsSince = this.#world.scheduler.now;
    if (this.#goal <= 0) {
      this.#goal = this.#draw.between(1, profile.files);
      this.#naps -= 1;
      if (this.#naps >= 0) this.#fallAsleep();
      else this.#end();
      return;
    }
    const trouble = faults.chance('breakage', this.sessionId, faults.intensity.breakage);
    if (trouble !== undefined) {
      const kind = trouble.pick(['crash', 'crash', 'clean exit', 'container restart', 'eviction'] as const);
      this.#world.note(this.sessionId, `${kind} in ${sandbox.id}`);
      if (kind === 'crash') platform.endRemote(sandbox, 1);
      if (kind === 'clean exit') platform.endRemote(sandbox, 0);
      if (kind === 'container restart') platform.restartContainer(sandbox);
      if (kind === 'eviction') platform.end(sandbox, 'evicted', 'platform');
      return;
    }
    if (faults.chance('flash', this.sessionId, faults.intensity.flash) !== undefined) this.#flash();
  }

  #checkFiles(sandbox: Sandbox): void {
    const { id: where, volume } = sandbox;
    const { files } = volume;
    const missing = [...this.expected].filter((file) => !files.has(file));
    if (missing.length > 0) {
      this.#world.violate(
        '4',
        `${this.sessionId} finds ${missing.length} of ${this.expected.size} files missing in ${where}`,
      );
    }
    const foreign = [...files].filter((file) => !file.startsWith(`${this.sessionId}/`));
    if (foreign.length > 0)
      this.#world.violate('4', `${this.sessionId} finds ${foreign.join(', ')} in ${where}`);
    this.#world.note(this.sessionId, `is served in ${where} with ${files.size} files`);
    this.expected = this.#isOrderedGone(sandbox) ? new Set() : new Set(files);
  }

  /** `suspended` shows up for a moment in a session that goes on. */
  #flash(): void {
    const { queue, scheduler } = this.#world;
    this.#world.note(this.sessionId, 'flashes suspended');
    queue.setStatus(this.sessionId, 'suspended');
    this.flashedAt = scheduler.now;
    // Shorter than three reads at the rules' pace.
    scheduler.after(this.#draw.between(100, 1_200), () => {
      if (this.#state === 'waiting') queue.setStatus(this.sessionId, 'running');
    });
  }

  /** Devin tells the remote, which exits with 0; the status follows or comes first; then the entry goes. */
  #fallAsleep(): void {
    const { queue, platform, scheduler } = this.#world;
    this.#state = 'falling-asleep';
    this.#world.note(this.sessionId, 'falls asleep');
    const exit = this.#draw.between(100, 3_000);
    const status = this.#draw.between(0, 8_000);
    const gone = status + this.#draw.between(3_000, 90_000);
    scheduler.after(exit, () => {
      const sandbox = this.#world.servedIn(this);
      if (sandbox !== undefined && this.#state !== 'waiting') platform.endRemote(sandbox, 0);
    });
    scheduler.after(Math.max(exit, status), () => {
      if (this.#state !== 'falling-asleep') return;
      this.#state = 'asleep';
      this.#restingSince = scheduler.now;
    });
    scheduler.after(status, () => {
      if (this.#state === 'over') return;
      if (this.#world.rules.suspendMode === 'discard') this.expectNothing();
      queue.setStatus(this.sessionId, 'suspended');
    });
    scheduler.after(gone, () => {
      if (this.#state === 'asleep') queue.remove(this.sessionId);
    });
    const nap = Math.max(exit, status) + 1 + this.#nap();
    scheduler.after(nap, () => this.#wake());
  }

  /** Many sleep only for seconds, which is the hard case. */
  #nap(): number {
    const { napMs } = this.#world.profile;
    return this.#draw.chance(0.4) ? this.#draw.between(0, 10_000) : this.#draw.between(...napMs);
  }

  #wake(): void {
    if (this.#state !== 'asleep') return;
    if (this.#naps === 0 && this.#draw.chance(0.3)) {
      this.#end();
      return;
    }
    this.#state = 'waiting';
    if (this.isOver(this.#world.rules.retentionMs)) this.expectNothing();
    this.#restingSince = undefined;
    this.waitsSince = this.#world.scheduler.now;
    this.#servedBy = undefined;
    this.#world.note(this.sessionId, 'wakes');
    this.#world.queue.enqueue(this.sessionId, 'resume');
  }

  #end(): void {
    const { queue, platform, scheduler } = this.#world;
    this.#state = 'over';
    this.#doneAt = scheduler.now;
    this.#world.note(this.sessionId, 'ends');
    if (queue.rows.has(this.sessionId)) queue.setStatus(this.sessionId, 'terminated');
    else if (this.#draw.chance(0.7)) queue.showTerminated(this.sessionId);
    scheduler.after(this.#draw.between(100, 3_000), () => {
      const sandbox = this.#world.servedIn(this);
      if (sandbox !== undefined) platform.endRemote(sandbox, 0);
    });
    scheduler.after(this.#draw.between(60_000, 600_000), () => queue.remove(this.sessionId));
  }
}
