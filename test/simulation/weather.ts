/** Troubles that last: for a while every call of one port is refused in the same way, or not answered at all. */
import { DvoError } from '../../src/lib/errors.ts';
import { ApiError } from '../../src/outposts/outposts.ts';
import { ProviderError } from '../../src/sandboxes/provider.ts';
import { Draw } from './draw.ts';
import type { World } from './world.ts';

interface Spell {
  readonly from: number;
  readonly to: number;
  readonly port: string;
  readonly trouble: (() => unknown) | 'silence';
}

const KINDS = [
  { name: 'devin refuses the token', port: 'api', trouble: () => new ApiError('bad token', { status: 401 }) },
  { name: 'devin is down', port: 'api', trouble: () => new ApiError('bad gateway', { status: 502 }) },
  { name: 'devin is silent', port: 'api', trouble: 'silence' },
  {
    name: 'the platform refuses the credentials',
    port: 'platform',
    trouble: () => new ProviderError('unauthenticated', 'bad key'),
  },
  {
    name: 'the platform is down',
    port: 'platform',
    trouble: () => new ProviderError('ambiguous', 'unavailable'),
  },
  { name: 'the platform is silent', port: 'platform', trouble: 'silence' },
  {
    name: 'no commands reach the sandboxes',
    port: 'remote',
    trouble: () => new ProviderError('ambiguous', 'unavailable'),
  },
  { name: 'the disk is full', port: 'disk', trouble: () => new DvoError('state', 'ENOSPC') },
] as const;

/** The troubles of one daemon. Answers what a port suffers from now. */
export function weatherOf(world: World, daemon: string): (port: string) => Spell['trouble'] | undefined {
  const { profile, faults, scheduler } = world;
  const spells: Spell[] = [];
  for (let number = 0; number < profile.intensity.weather; number += 1) {
    const draw = new Draw(profile.seed, 'weather', daemon, number);
    if (faults.chance('weather', daemon, 0.7) === undefined) continue;
    const { name, port, trouble } = draw.pick(KINDS);
    const from = draw.between(0, profile.troubleMs);
    const to = Math.min(profile.troubleMs, from + draw.between(5_000, draw.pick([60_000, 900_000])));
    spells.push({ from, to, port, trouble });
    scheduler.after(from, () => world.note(daemon, `weather: ${name} for ${(to - from) / 1_000} s`));
  }
  return (port) => {
    const now = scheduler.elapsed;
    return spells.find((spell) => spell.port === port && spell.from <= now && now < spell.to)?.trouble;
  };
}
