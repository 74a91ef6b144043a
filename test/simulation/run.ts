/** One seed from its beginning to its end: trouble, then calm, in which everything must come right. */
import type { Profile } from './profile.ts';
import type { Variant } from './variant.ts';
import { World } from './world.ts';

export interface RunOptions {
  readonly profile: Profile;
  readonly allowed?: ReadonlySet<string>;
  readonly users?: ReadonlySet<number>;
  readonly variant?: Variant;
}

export interface Outcome {
  readonly world: World;
  readonly violation: string | undefined;
  readonly events: number;
}

/** After the last fault every session must come to its end within this. */
const CALM_MS = 10 * 3_600_000;
/** After the last session's end nothing of any may be left for longer than archives are kept, and this. */
const CLEAN_MS = 3_600_000;

export async function run(options: RunOptions): Promise<Outcome> {
  const world = new World(options);
  const { scheduler } = world;
  const onRejection = (error: unknown): void =>
    world.violate('process', `unhandled rejection: ${String(error)}`);
  process.on('unhandledRejection', onRejection);
  try {
    await go(world, () => scheduler.elapsed >= world.profile.troubleMs);
    world.faults.enabled = false;
    world.note('world', 'the trouble is over');
    const calm = await go(
      world,
      () => [...world.users.values()].every((user) => user.done),
      scheduler.elapsed + CALM_MS,
    );
    if (!calm) {
      const waiting = [...world.users.values()].filter((user) => !user.done);
      world.violate(
        '7',
        `not served in the end: ${waiting.map((user) => `${user.sessionId} (${user.state})`).join(', ')}`,
      );
    }
    const limit = scheduler.elapsed + world.rules.retentionMs + CLEAN_MS;
    const clean = await go(
      world,
      () => world.hosts.every((host) => host.alive) && world.leftovers().length === 0,
      limit,
    );
    if (!clean) world.violate('3', `left over: ${world.leftovers().join('; ')}`);
  } finally {
    process.off('unhandledRejection', onRejection);
  }
  return { world, violation: world.violation, events: scheduler.events };
}

/** Lets the world go on until `done`, a violation, or `until`. True: done. */
async function go(world: World, done: () => boolean, until = Number.POSITIVE_INFINITY): Promise<boolean> {
  const { scheduler } = world;
  for (let count = 0; world.violation === undefined; count += 1) {
    // Looking is cheap beside what happens, but not free.
    if (count % 16 === 0 && done()) return true;
    if (scheduler.elapsed >= until) return false;
    if (!(await scheduler.step())) return done();
    world.check();
  }
  return true;
}
