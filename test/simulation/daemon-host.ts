/**
 * The place where one daemon runs: it is started, killed at any of its calls, stopped in order now and then, and
 * started again, with its disk or without.
 */
import { describeError, DvoError } from '../../src/lib/errors.ts';
import type { Logger, LogFields } from '../../src/lib/log.ts';
import { noTracer } from '../../src/lib/tracer.ts';
import { DEFAULT_LIMITS, type Identity } from '../../src/orchestrator/context.ts';
import { giveOrder } from '../../src/orchestrator/give-order.ts';
import { Motor, type MotorParts } from '../../src/orchestrator/motor.ts';
import type { Recorder } from '../../src/orchestrator/recorder.ts';
import { QueueInformer } from '../../src/outposts/queue.ts';
import { LOOKS_APART_MS } from '../../src/outposts/sightings.ts';
import type { OrderAnswer } from '../../src/ops/orders.ts';
import { acceptorTag, outpostTag, sandboxName } from '../../src/sandboxes/names.ts';
import { nextStep, type Planner } from '../../src/session/plan.ts';
import type { Order } from '../../src/session/session.ts';
import { openSessionIndex, type SessionIndex } from '../../src/state/session-index.ts';
import { DiskWorld } from './disk-world.ts';
import { Draw } from './draw.ts';
import { Line } from './line.ts';
import { platformPort } from './platform-port.ts';
import { OUTPOST } from './profile.ts';
import { queuePort } from './queue-port.ts';
import { remotePort } from './remote-port.ts';
import { weatherOf } from './weather.ts';
import { clockOf, type Life } from './virtual-clock.ts';
import type { World } from './world.ts';

const GRACE_MS = 25_000;
const STATE_DIR = '/state';

export class DaemonHost {
  readonly id: string;
  readonly disk = new DiskWorld();
  readonly #world: World;
  readonly #draw: Draw;
  readonly #identity: Identity;
  readonly #weather: ReturnType<typeof weatherOf>;
  #life: Life = { alive: false };
  #runs = 0;
  motor: Motor | undefined;
  #give: ((sessionId: string, order: Order) => Promise<OrderAnswer>) | undefined;
  lostDisk = false;

  constructor(world: World, id: string) {
    this.#world = world;
    this.id = id;
    this.#draw = new Draw(world.profile.seed, 'host', id);
    this.#identity = identityOf(`acceptor-${id}`);
    this.#weather = weatherOf(world, id);
    this.disk.onWrite = (path, text) => {
      if (text.includes('connect-token-')) world.violate('8', `a connect token is in ${path}`);
    };
    world.scheduler.after(this.#draw.between(0, 2_000), () => this.#start());
    this.#stopNowAndThen();
  }

  get acceptorId(): string {
    return this.#identity.acceptorId;
  }

  get alive(): boolean {
    return this.#life.alive;
  }

  /** Its process is gone from one moment to the next. */
  kill(why: string): void {
    if (!this.#life.alive) return;
    this.#world.deaths += 1;
    this.#world.note(this.id, `DIES ${why}`);
    this.#gone(this.#draw.between(200, this.#draw.pick([2_000, 60_000, 400_000])));
  }

  /** Orders something by hand. Answers the order that the session's record bears then. */
  order(sessionId: string, order: Order): Order | undefined {
    if (!this.#life.alive || this.#give === undefined) return undefined;
    const note = (text: string): void =>
      this.#world.note(this.id, `${sessionId} ordered to ${order}: ${text}`);
    this.#give(sessionId, order).then(note, (error: unknown) => note(describeError(error)));
    return this.motor?.records.get(this.#identity.nameOf(sessionId))?.order;
  }

  /** While it is dead its disk is not looked at. */
  mayYetDo(sessionId: string, order: Order): boolean {
    if (this.motor === undefined) return true;
    return this.motor.records.get(this.#identity.nameOf(sessionId))?.order === order;
  }

  #gone(backInMs: number): void {
    this.#life.alive = false;
    this.motor = undefined;
    this.#give = undefined;
    const { faults, scheduler } = this.#world;
    const loss = faults.chance('disk-loss', this.id, faults.intensity.diskLoss);
    if (loss !== undefined) {
      const isTorn = loss.chance(0.4);
      this.#world.note(this.id, isTorn ? 'FINDS ITS DISK TORN' : 'LOSES ITS DISK');
      this.#world.disksLost += 1;
      if (isTorn) this.#world.disksTorn += 1;
      this.lostDisk = true;
      if (isTorn) this.disk.tear(loss);
      else this.disk.lose();
    }
    scheduler.after(backInMs, () => this.#start());
  }

  #stopNowAndThen(): void {
    const { scheduler, faults } = this.#world;
    scheduler.after(this.#draw.between(300_000, 1_800_000), () => {
      const draw = faults.chance('stop', this.id, faults.intensity.death > 0 ? 0.5 : 0);
      if (draw !== undefined) void this.#stop(draw.pick(['detach', 'detach', 'drain'] as const));
      if (faults.enabled) this.#stopNowAndThen();
    });
  }

  async #stop(mode: 'detach' | 'drain'): Promise<void> {
    const { motor } = this;
    const life = this.#life;
    if (motor === undefined || !life.alive) return;
    this.#world.note(this.id, `is asked to stop: ${mode}`);
    const limit = this.#world.scheduler.after(GRACE_MS + 2_000, () => {
      if (life.alive) this.#world.violate('T6', `${this.id} did not stop within its grace`);
    });
    await motor.stop(mode, GRACE_MS);
    limit.cancel();
    if (!life.alive) return;
    this.#world.note(this.id, 'has stopped');
    this.#gone(this.#draw.between(200, 30_000));
  }

  #start(): void {
    if (this.#life.alive) return;
    const life = { alive: true };
    this.#life = life;
    this.#runs += 1;
    void this.#boot(life).catch((error: unknown) => {
      if (!life.alive) return;
      if (!(error instanceof DvoError)) this.#world.violate('start', describeError(error));
      this.#world.note(this.id, `cannot start: ${describeError(error)}`);
      this.#gone(5_000);
    });
  }

  async #boot(life: Life): Promise<void> {
    const { scheduler, faults, profile } = this.#world;
    const clock = clockOf(scheduler, life);
    const random = new Draw(profile.seed, this.id, this.#runs);
    const line = new Line({
      daemon: this.id,
      life,
      clock,
      scheduler,
      faults,
      die: (why) => {
        if (life.alive) this.kill(why);
      },
      note: (text) => this.#world.note(`${this.id} call`, text),
    });
    line.weather = (port) => this.#weather(port);
    const log = this.#logger(life, {});
    const disk = this.disk.port(line);
    const { outpostId, acceptorId } = this.#identity;
    const { index, origin } = await openSessionIndex({
      disk,
      stateDir: STATE_DIR,
      clock,
      log,
      outpostId,
      acceptorId,
    });
    this.#world.note(this.id, `STARTS with index: ${origin}`);
    const parts = this.#parts({ line, clock, random, log, index, disk });
    const motor = new Motor(this.#world.variant?.parts?.(parts) ?? parts, this.#planner());
    this.motor = motor;
    this.#give = async (sessionId, order) => {
      const answer = giveOrder(
        { records: motor.records, identity: this.#identity, clock, log },
        sessionId,
        order,
      );
      motor.wake(sessionId);
      return await answer;
    };
    motor.start();
  }

  #planner(): Planner {
    const { variant, coverage } = this.#world;
    const plan = variant?.plan?.(nextStep) ?? nextStep;
    return (view, rules) => {
      const decision = plan(view, rules);
      coverage.see(view, rules, decision);
      return decision;
    };
  }

  #parts(opened: {
    readonly line: Line;
    readonly clock: MotorParts['clock'];
    readonly random: Draw;
    readonly log: Logger;
    readonly index: SessionIndex;
    readonly disk: ReturnType<DiskWorld['port']>;
  }): MotorParts {
    const { line, clock, random, log, index, disk } = opened;
    const { queue, platform, scheduler, faults, profile, rules } = this.#world;
    const { acceptorId } = this.#identity;
    const onClaim = (sessionId: string): void => this.#world.pace(`${this.id} claims ${sessionId}`, 1);
    const api = queuePort({ queue, line, scheduler, faults, acceptorId, onClaim });
    const cursorPath = `${STATE_DIR}/watch_cursor`;
    return {
      clock,
      random,
      log,
      recorder: {
        ...NO_RECORDER,
        // Probes have a pace of their own: a starting sandbox is looked at twice a second.
        step: (name) => {
          if (name !== 'probe') this.#world.pace(`${this.id}: ${name}`, profile.users);
        },
      },
      tracer: noTracer,
      api,
      index,
      provider: platformPort(platform, line),
      remote: remotePort({
        platform,
        queue,
        line,
        onLaunch: (sandbox, remote) => this.#world.onLaunch(sandbox, remote),
      }),
      identity: this.#identity,
      rules,
      limits: { ...DEFAULT_LIMITS, snapshotMs: 120_000 },
      gatewayUrl: undefined,
      admission: { canEnforce: () => true },
      egressFor: () => ({ kind: 'open' }),
      beat: () => undefined,
      openQueue: (hooks) =>
        new QueueInformer({
          ...hooks,
          api,
          clock,
          random,
          log,
          acceptorId,
          looksApartMs: LOOKS_APART_MS,
          cursor: {
            load: async () => {
              const bytes = await disk.read(cursorPath);
              return bytes === undefined ? undefined : new TextDecoder().decode(bytes);
            },
            save: (cursor) => disk.replace(cursorPath, new TextEncoder().encode(cursor)),
          },
          settings: {
            pollIntervalMs: 10_000,
            resyncIntervalMs: 120_000,
            watchIdleTimeoutMs: 45_000,
            callMs: DEFAULT_LIMITS.apiMs,
          },
          onReconnect: () => undefined,
          beat: () => undefined,
        }),
      settings: {
        maxSessions: profile.maxSessions,
        renewMarginMs: 60_000,
        sweepEveryMs: 60_000,
        strayGraceMs: 600_000,
      },
    };
  }

  #logger(life: Life, bound: LogFields): Logger {
    const world = this.#world;
    const say =
      (level: string) =>
      (message: string, fields?: LogFields): void => {
        if (!life.alive) return;
        const all = { ...bound, ...fields };
        world.history.add(world.scheduler.elapsed, `${this.id} ${level}`, message, all);
        if (message.startsWith('archive cannot be restored'))
          world.onStartsEmpty(String(all['session']), String(all['archive']));
        if (message === 'pass failed') world.violate('motor', `a pass threw: ${String(all['error'])}`);
      };
    return {
      debug: () => undefined,
      info: say('info'),
      warn: say('warn'),
      error: say('error'),
      child: (fields) => this.#logger(life, { ...bound, ...fields }),
    };
  }
}

function identityOf(acceptorId: string): Identity {
  const tags = { acceptorTag: acceptorTag(acceptorId), outpostTag: outpostTag(OUTPOST) };
  return {
    outpostId: OUTPOST,
    acceptorId,
    ...tags,
    tags: [tags.outpostTag, tags.acceptorTag],
    nameOf: (sessionId) => sandboxName(OUTPOST, sessionId),
  };
}

const nothing = (): void => undefined;
const NO_RECORDER: Recorder = {
  claim: nothing,
  claimedAfter: nothing,
  servingAfter: nothing,
  step: nothing,
  remoteRestart: nothing,
  archive: nothing,
  refused: nothing,
  admissionPaused: nothing,
  janitor: nothing,
  stages: nothing,
  slots: nothing,
};
