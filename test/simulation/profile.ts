/** What one seed's world is like. */
import { DEFAULT_RULES, type Rules } from '../../src/session/rules.ts';
import { Draw } from './draw.ts';
import { CALM, type Intensity } from './faults.ts';
import type { PlatformHabits } from './platform-world.ts';
import type { QueueHabits } from './queue-world.ts';

export const OUTPOST = 'outpost_env-simulated';

export interface Profile {
  readonly seed: number;
  readonly daemons: readonly string[];
  readonly users: number;
  readonly maxSessions: number;
  /** Naps of one session, files per waking, at most. */
  readonly naps: number;
  readonly files: number;
  readonly paceMs: readonly [number, number];
  readonly napMs: readonly [number, number];
  readonly arrivalMs: number;
  /** Faults end then. */
  readonly troubleMs: number;
  readonly intensity: Intensity;
  readonly queue: QueueHabits;
  readonly platform: PlatformHabits;
  readonly rules: Rules;
  /** How likely a person orders a session away by hand, per pace of its user. */
  readonly orders: number;
}

const MILD: Intensity = {
  call: 0.01,
  death: 0.001,
  diskLoss: 0,
  breakage: 0.02,
  platform: 0.05,
  weather: 1,
  flash: 0.03,
  watch: 0.02,
};

const ROUGH: Intensity = {
  call: 0.05,
  death: 0.008,
  diskLoss: 0.1,
  breakage: 0.08,
  platform: 0.15,
  weather: 3,
  flash: 0.08,
  watch: 0.08,
};

const WILD: Intensity = {
  call: 0.15,
  death: 0.03,
  diskLoss: 0.1,
  breakage: 0.15,
  platform: 0.3,
  weather: 5,
  flash: 0.15,
  watch: 0.2,
};

export function profileOf(seed: number): Profile {
  return withOperator(worldOf(seed));
}

/** A person runs the daemons, who may give orders by hand, and may want nothing kept of sleeping sessions. */
function withOperator(profile: Profile): Profile {
  const draw = new Draw(profile.seed, 'operator');
  const orders = draw.pick([0, 0, 0.005, 0.02]);
  const keepsNothing = draw.chance(0.06);
  const rules: Rules = keepsNothing ? { ...profile.rules, suspendMode: 'discard' } : profile.rules;
  return { ...profile, orders, rules };
}

/** Without a person: nothing but faults. */
export function worldOf(seed: number): Profile {
  const draw = new Draw(seed, 'profile');
  const intensity = draw.pick([CALM, MILD, MILD, ROUGH, ROUGH, ROUGH, WILD]);
  const users = draw.between(1, 6);
  const shortLived = draw.chance(0.3);
  return {
    seed,
    daemons: draw.chance(0.35) ? ['alpha', 'beta'] : ['alpha'],
    users,
    maxSessions: draw.between(1, Math.max(1, users)),
    naps: draw.between(0, 3),
    files: draw.between(1, 8),
    paceMs: [3_000, draw.pick([10_000, 60_000])],
    napMs: [5_000, draw.pick([60_000, 600_000])],
    arrivalMs: draw.pick([1_000, 300_000]),
    troubleMs: draw.between(10, 60) * 60_000,
    intensity: draw.chance(0.5) ? intensity : { ...intensity, diskLoss: 0 },
    queue: {
      runningClaimsLapse: draw.chance(0.5),
      renews: draw.chance(0.8),
      tellsUpdatedAt: draw.chance(0.8),
      deletedCarriesEntry: draw.chance(0.5),
      pageSize: draw.pick([1, 3, 100]),
    },
    platform: {
      listLagMs: draw.pick([0, 2_000, 10_000]),
      lifetimeMs: shortLived ? draw.between(15, 30) * 60_000 : undefined,
      archives: draw.chance(0.93) ? 'supported' : 'unsupported',
      forgetsAfterMs: new Draw(seed, 'forgets').pick([undefined, undefined, 0, 300_000]),
      bootMs: draw.pick([[300, 3_000] as const, [2_000, 30_000] as const]),
      archiveMs: draw.pick([[500, 5_000] as const, [5_000, 60_000] as const]),
    },
    rules: {
      ...DEFAULT_RULES,
      checkpointEveryMs: draw.pick([0, 120_000, 600_000]),
      lifetimeMarginMs: 300_000,
      retentionMs: 3_600_000,
      suspendMode: draw.chance(0.9) ? 'snapshot' : 'keep',
    },
    orders: 0,
  };
}

/** A hundred sessions that come, sleep and wake through one virtual day, with mild faults. */
export function dayOf(seed: number): Profile {
  const hour = 3_600_000;
  return {
    ...worldOf(seed),
    orders: 0.002,
    daemons: ['alpha'],
    users: 100,
    maxSessions: 25,
    naps: 4,
    files: 10,
    paceMs: [60_000, 600_000],
    napMs: [60_000, 4 * hour],
    arrivalMs: 16 * hour,
    troubleMs: 24 * hour,
    intensity: { ...MILD, death: 0.0003, weather: 6 },
    platform: {
      listLagMs: 2_000,
      lifetimeMs: undefined,
      archives: 'supported',
      forgetsAfterMs: 300_000,
      bootMs: [2_000, 30_000],
      archiveMs: [5_000, 60_000],
    },
    rules: { ...DEFAULT_RULES, checkpointEveryMs: 1_800_000, retentionMs: 12 * hour },
  };
}
