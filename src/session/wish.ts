/** What the queue wants of one session, and whether that is certain enough to act on. Pure. */
import type { Rules } from './rules.ts';
import type { Ending, Order, RemoteFact, SessionRecord, Sighting } from './session.ts';

/**
 * claimable: alive and nobody's · held: alive and ours · suspend · terminate · yield: alive and another daemon's ·
 * undecided: nothing is known yet, or what is seen must be confirmed first; nothing new is begun, nothing is ended.
 */
export const WISHES = ['claimable', 'held', 'suspend', 'terminate', 'yield', 'undecided'] as const;
export type Wish = (typeof WISHES)[number];

export function wishOf(sighting: Sighting, remote: RemoteFact, rules: Rules): Wish {
  switch (sighting.gist) {
    case 'available':
      return 'claimable';
    case 'held':
      return 'held';
    case 'terminated':
      return 'terminate';
    case 'over':
    case 'absent':
      // `suspended` flashes up in running sessions, and a missed row is not a missing one; a remote that has
      // exited by itself is the second witness.
      return sighting.looks >= rules.suspendLooks || remote === 'exited' ? 'suspend' : 'undecided';
    case 'elsewhere':
      return sighting.looks >= rules.yieldLooks ? 'yield' : 'undecided';
    case 'unseen':
    case 'unclear':
      return 'undecided';
  }
}

/**
 * What the queue wants, overruled by what a person wants. Not where the session is over anyway, nor where another daemon
 * holds it: then its archives may be what that daemon works from.
 */
export function orderedWish(wish: Wish, sighting: Sighting, order: Order | undefined): Wish {
  if (order === undefined || wish === 'terminate' || sighting.gist === 'elsewhere') return wish;
  return order === 'terminate' ? 'terminate' : 'suspend';
}

/** Whether the session is already as the order wants it. */
export function isDone({ stage, kept }: SessionRecord, order: Order): boolean {
  return stage === 'suspended' && order !== 'terminate' && !(order === 'release' && kept === true);
}

/** How a session that is to sleep is taken down. */
export function sleepEnding({ order }: SessionRecord): Ending {
  return order === 'release' ? 'release' : 'suspend';
}

/** Whether reading the entry again can turn `undecided` into something. */
export function canBeConfirmed(sighting: Sighting): boolean {
  return sighting.gist !== 'unseen';
}
