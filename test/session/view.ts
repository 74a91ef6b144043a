/** Builds the planner's inputs as literals. */
import type { View } from '../../src/session/plan.ts';
import { DEFAULT_RULES } from '../../src/session/rules.ts';
import type { Facts, SessionRecord, Sighting, Stage } from '../../src/session/session.ts';
import { NO_FACTS } from '../../src/session/session.ts';
import type { Wish } from '../../src/session/wish.ts';

export const NOW = 1_800_000_000_000;

export function record(stage: Stage, over: Partial<SessionRecord> = {}): SessionRecord {
  return {
    sessionId: 'devin-1',
    stage,
    stageSince: NOW - 1_000,
    attempt: 1,
    claimKind: 'new',
    createdAt: NOW - 60_000,
    updatedAt: NOW - 1_000,
    failures: 0,
    launches: 1,
    ...over,
  };
}

/** A sighting that means `wish` whatever the remote shows. */
export function sightingOf(wish: Wish): Sighting {
  switch (wish) {
    case 'claimable':
      return { gist: 'available', looks: 1 };
    case 'held':
      return { gist: 'held', looks: 1 };
    case 'suspend':
      return { gist: 'absent', looks: DEFAULT_RULES.suspendLooks };
    case 'terminate':
      return { gist: 'terminated', looks: 1 };
    case 'yield':
      return { gist: 'elsewhere', looks: DEFAULT_RULES.yieldLooks };
    case 'undecided':
      return { gist: 'elsewhere', looks: 1 };
  }
}

export function view(over: Partial<View> & { readonly facts?: Facts } = {}): View {
  return {
    now: NOW,
    sighting: sightingOf('held'),
    ours: true,
    record: undefined,
    facts: NO_FACTS,
    draining: false,
    ...over,
  };
}
