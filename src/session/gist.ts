/** What one queue entry means to the acceptor that reads it. Pure. */
import type { Gist, QueueEntry } from './session.ts';

export function gistOf(entry: QueueEntry, acceptorId: string): Gist {
  switch (entry.status) {
    case 'terminated':
      return 'terminated';
    case 'suspended':
    case 'over':
      return 'over';
    case 'pending':
    case 'running':
    case 'unknown':
      return aliveGist(entry, acceptorId);
  }
}

function aliveGist(entry: QueueEntry, acceptorId: string): Gist {
  switch (entry.phase) {
    case 'pending':
      return 'available';
    case 'claimed':
      // A claimed row without a holder contradicts itself; a later read will settle it.
      if (entry.acceptorId === undefined) return 'unclear';
      return entry.acceptorId === acceptorId ? 'held' : 'elsewhere';
    case 'unknown':
      return 'unclear';
  }
}
