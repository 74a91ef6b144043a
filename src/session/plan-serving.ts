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
  const machine = planMachine(view, rules);
  return wish === 'undecided' ? soonest(harmless(machine), confirm(view, rules)) : machine;
}

/** What the machine needs while the session is served. */
function planMachine(view: RecordView, rules: Rules): Decision {
  const { record, facts } = view;
  switch (facts.sandbox) {
    case 'none':
    case 'ended':
      return record.launches > rules.restartLimit
        ? step({ do: 'stop-remote', ending: 'give-up' })
        : step({ do: 'ensure-sandbox' });
    case 'unknown':
    case 'starting':
      return nextProbe(view, rules, 'the sandbox is being looked at');
    case 'running':
      return planRemote(view, rules);
  }
}

function planRemote(view: RecordView, rules: Rules): Decision {
  const { now, record, facts } = view;
  switch (facts.remote) {
    case 'unknown':
      return nextProbe(view, rules, 'the remote is being looked at');
    case 'exited': {
      // The queue lags the remote's exit by some seconds; it is asked before it is overruled.
      if (facts.looksSinceExit >= rules.exitLooks) return step({ do: 'stop-remote', ending: 'suspend' });
      const dueAt = (facts.confirmedAt ?? Number.NEGATIVE_INFINITY) + rules.confirmEveryMs;
      return now >= dueAt ? step({ do: 'look' }) : waitUntil(dueAt, 'the remote has exited');
    }
    case 'failed': {
      if (record.launches > rules.restartLimit) return step({ do: 'stop-remote', ending: 'give-up' });
      const relaunchAt = (record.remote?.launchedAt ?? 0) + relaunchWaitMs(record.launches, rules);
      return now >= relaunchAt ? step({ do: 'prepare' }) : waitUntil(relaunchAt, 'waiting to relaunch');
    }
    case 'running':
      return planHealthy(view, rules);
  }
}

function planHealthy(view: RecordView, rules: Rules): Decision {
  const { now, record } = view;
  const notBefore = record.archiving?.retryAt ?? Number.NEGATIVE_INFINITY;
  const archives = record.archiving?.unsupported !== true;
  const rollOverAt =
    record.lifetimeEndsAt === undefined || !archives
      ? Infinity
      : Math.max(record.lifetimeEndsAt - rules.lifetimeMarginMs, notBefore);
  if (now >= rollOverAt) return step({ do: 'stop-remote', ending: 'roll-over' });
  if ((record.obsolete ?? []).length > 0) return step({ do: 'tidy' });
  const checkpointAt =
    rules.checkpointEveryMs === 0 || !archives
      ? Infinity
      : Math.max(lastArchiveAt(record) + rules.checkpointEveryMs, notBefore);
  if (now >= checkpointAt) return step({ do: 'checkpoint' });
  return soonest(
    nextProbe(view, rules, 'serving'),
    waitUntil(Math.min(rollOverAt, checkpointAt), 'serving until the next archive'),
  );
}

/** Work that no archive holds began at the latest archive, or with the stage. */
function lastArchiveAt(record: SessionRecord): number {
  return Math.max(record.archive?.takenAt ?? 0, record.remote?.launchedAt ?? record.stageSince);
}

/** First relaunch at once, then doubling. `launches` counts the first launch too. */
function relaunchWaitMs(launches: number, rules: Rules): number {
  if (launches <= 1) return 0;
  return Math.min(rules.relaunchMaxMs, rules.relaunchFirstMs * 2 ** (launches - 2));
}

function nextProbe(view: RecordView, rules: Rules, why: string): Decision {
  const dueAt = view.facts.probedAt === undefined ? view.now : view.facts.probedAt + rules.probeEveryMs;
  return view.now >= dueAt ? step({ do: 'probe' }) : waitUntil(dueAt, why);
}

const HARMLESS: ReadonlySet<StepName> = new Set(['probe', 'look', 'checkpoint']);

/** Only looks, and the archive that protects work, may happen while the queue is unclear. */
function harmless(decision: Decision): Decision {
  if (decision.kind === 'wait' || HARMLESS.has(decision.step.do)) return decision;
  return rest('waiting for the queue to say what it wants');
}
