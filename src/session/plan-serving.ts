/** Stage `serving`: the remote was launched. Pure; see plan.ts. */
import { confirm, rest, soonest, step, waitUntil, type Decision, type StepName } from './decision.ts';
import type { RecordView } from './plan.ts';
import type { Rules } from './rules.ts';
import type { SessionRecord } from './session.ts';
import { sleepEnding, type Wish } from './wish.ts';

export function planServing(view: RecordView, wish: Wish, rules: Rules): Decision {
  if (wish === 'suspend') return step({ do: 'stop-remote', ending: sleepEnding(view.record) });
  if (wish === 'yield') return step({ do: 'stop-remote', ending: 'yield' });
  if (view.draining) return step({ do: 'stop-remote', ending: 'drain' });
  // Our claim has lapsed: the session holds its slot already, so it is taken again outside admission.
  if (wish === 'claimable') return step({ do: 'claim' });
  // Nothing new is begun for a session that may be over; but it is watched, and its claim lives on.
  if (wish === 'undecided') return soonest(harmless(planMachine(view, wish, rules)), confirm(view, rules));
  return planMachine(view, wish, rules);
}

/** What the machine needs while the session is served. */
function planMachine(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { record, facts } = view;
  switch (facts.sandbox) {
    case 'none':
    case 'ended':
      return record.launches > rules.restartLimit
        ? step({ do: 'stop-remote', ending: 'give-up' })
        : step({ do: 'ensure-sandbox' });
    case 'unknown':
    case 'starting':
      return planAtWork(view, wish, rules);
    case 'running':
      return planRemote(view, wish, rules);
  }
}

function planRemote(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { now, record, facts } = view;
  switch (facts.remote) {
    case 'exited': {
      // The queue lags the remote's exit by some seconds; it is asked before it is overruled.
      if (facts.looksSinceExit >= rules.exitLooks) return step({ do: 'stop-remote', ending: 'suspend' });
      const dueAt = (facts.confirmedAt ?? Number.NEGATIVE_INFINITY) + rules.confirmEveryMs;
      return now >= dueAt ? step({ do: 'look' }) : waitUntil(dueAt, 'the remote has exited');
    }
    case 'failed': {
      if (wish === 'undecided') return planAtWork(view, wish, rules);
      if (record.launches > rules.restartLimit) return step({ do: 'stop-remote', ending: 'give-up' });
      const relaunchAt = (record.remote?.launchedAt ?? 0) + relaunchWaitMs(record.launches, rules);
      return now >= relaunchAt ? step({ do: 'prepare' }) : waitUntil(relaunchAt, 'waiting to relaunch');
    }
    case 'unknown':
    case 'running':
      return planAtWork(view, wish, rules);
  }
}

/**
 * The remote is at work, or may be: what cannot be seen is archived all the same. It is looked at first, so that nothing
 * else that fails keeps its end from being seen.
 */
function planAtWork(view: RecordView, wish: Wish, rules: Rules): Decision {
  const { now, record } = view;
  const probe = nextProbe(view, rules);
  if (probe.kind === 'step') return probe;
  const notBefore = record.archiving?.retryAt ?? Number.NEGATIVE_INFINITY;
  const rollOverAt =
    record.lifetimeEndsAt === undefined || record.archiving?.unsupported === true
      ? Infinity
      : Math.max(record.lifetimeEndsAt - rules.lifetimeMarginMs, notBefore);
  const isClear = wish !== 'undecided';
  if (isClear && now >= rollOverAt) return step({ do: 'stop-remote', ending: 'roll-over' });
  const lastAt = lastArchiveAt(record);
  const oldAt = rules.checkpointEveryMs === 0 ? Infinity : lastAt + rules.checkpointEveryMs;
  // A roll-over that has to wait for the queue's word leaves an archive behind at least.
  const insteadAt = isClear || lastAt >= rollOverAt ? Infinity : rollOverAt;
  const checkpointAt = Math.max(Math.min(oldAt, insteadAt), notBefore);
  if (now >= checkpointAt) return step({ do: 'checkpoint' });
  if (isClear && (record.obsolete ?? []).length > 0) return step({ do: 'tidy' });
  const archiveAt = Math.min(isClear ? rollOverAt : Infinity, checkpointAt);
  return soonest(probe, waitUntil(archiveAt, 'serving until the next archive'));
}

/** Work that no archive holds is as old as this: since the latest archive, or since its first remote was launched. */
function lastArchiveAt({ archive, servedSince, stageSince }: SessionRecord): number {
  return Math.max(archive?.takenAt ?? 0, servedSince ?? stageSince);
}

/** First relaunch at once, then doubling. `launches` counts the first launch too. */
function relaunchWaitMs(launches: number, rules: Rules): number {
  if (launches <= 1) return 0;
  return Math.min(rules.relaunchMaxMs, rules.relaunchFirstMs * 2 ** (launches - 2));
}

function nextProbe(view: RecordView, rules: Rules): Decision {
  const dueAt = view.facts.probedAt === undefined ? view.now : view.facts.probedAt + rules.probeEveryMs;
  return view.now >= dueAt ? step({ do: 'probe' }) : waitUntil(dueAt, 'serving');
}

const HARMLESS: ReadonlySet<StepName> = new Set(['probe', 'look', 'checkpoint']);

/** Only looks, and the archive that protects work, may happen while the queue is unclear. */
function harmless(decision: Decision): Decision {
  if (decision.kind === 'wait' || HARMLESS.has(decision.step.do)) return decision;
  return rest('waiting for the queue to say what it wants');
}
