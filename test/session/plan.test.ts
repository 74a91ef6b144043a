import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/session/decision.ts';
import { nextStep, type View } from '../../src/session/plan.ts';
import { DEFAULT_RULES, type Rules } from '../../src/session/rules.ts';
import {
  NO_FACTS,
  REMOTE_FACTS,
  SANDBOX_FACTS,
  STAGES,
  type Facts,
  type SessionRecord,
} from '../../src/session/session.ts';
import { isDone, WISHES } from '../../src/session/wish.ts';
import { rowOf, STATE_TABLE, type TableRow } from '../support/state-table.ts';
import { NOW, record, sightingOf, view } from './view.ts';

const running: Facts = {
  ...NO_FACTS,
  sandbox: 'running',
  remote: 'running',
  probedAt: NOW,
  healthySince: NOW,
};

function label(decision: Decision): string {
  if (decision.kind === 'wait') return 'wait';
  const { step } = decision;
  return 'ending' in step ? `${step.do} (${step.ending})` : step.do;
}

function plan(over: Partial<View>, rules: Partial<Rules> = {}): string {
  return label(nextStep(view(over), { ...DEFAULT_RULES, ...rules }));
}

function serving(over: Partial<SessionRecord> = {}): SessionRecord {
  return record('serving', {
    sandboxId: 'sb-1',
    remote: { launchId: 'l-1', sha: 'abcdef', launchedAt: NOW - 120_000, pid: 7 },
    servedSince: NOW - 120_000,
    ...over,
  });
}

describe('the state table', () => {
  const used = new Set<TableRow | undefined>();

  const cells = ['none' as const, ...STAGES].flatMap((stage) =>
    WISHES.flatMap((wish) =>
      SANDBOX_FACTS.flatMap((sandbox) => REMOTE_FACTS.map((remote) => ({ stage, wish, sandbox, remote }))),
    ),
  );

  it.each(['none' as const, ...STAGES])(
    'answers every combination of wish, sandbox and remote in stage %s as docs/lifecycle.md says',
    (stage) => {
      for (const cell of cells.filter((one) => one.stage === stage)) {
        const values = [cell.stage, cell.wish, cell.sandbox, cell.remote];
        const row = rowOf(values);
        const answer = plan({
          sighting: sightingOf(cell.wish),
          facts: { ...NO_FACTS, sandbox: cell.sandbox, remote: cell.remote },
          record: cell.stage === 'none' ? undefined : record(cell.stage, { sandboxId: 'sb-1' }),
        });
        expect(`${values.join(' × ')} → ${answer}`).toBe(`${values.join(' × ')} → ${row?.next ?? 'no row'}`);
        used.add(row);
      }
    },
  );

  it('has no row that nothing reaches', () => {
    const idle = STATE_TABLE.filter((row) => !used.has(row)).map(({ cells: cols }) => cols.join(' | '));
    expect(idle).toEqual([]);
  });

  it('walks 960 combinations', () => {
    expect(cells).toHaveLength(8 * 6 * 5 * 4);
  });
});

describe('before a remote runs', () => {
  it('does nothing about a session that is over when its claim is not ours', () => {
    expect(plan({ sighting: sightingOf('suspend'), ours: false })).toBe('wait');
    expect(plan({ sighting: sightingOf('terminate'), ours: false })).toBe('wait');
    expect(plan({ sighting: sightingOf('undecided'), ours: false })).toBe('wait');
  });

  it('launches once the binary is in place', () => {
    const prepared = record('preparing', { sandboxId: 'sb-1', preparedSha: 'abcdef' });
    expect(plan({ record: prepared, facts: { ...NO_FACTS, sandbox: 'running' } })).toBe('launch');
  });

  it('gives up after repeated failures, and takes down what exists', () => {
    const failures = DEFAULT_RULES.stepRetryLimit;
    expect(plan({ record: record('claimed', { failures }) })).toBe('withdraw (give-up)');
    expect(plan({ record: record('provisioning', { failures }) })).toBe('withdraw (give-up)');
    const preparing = record('preparing', { failures, sandboxId: 'sb-1' });
    expect(plan({ record: preparing, facts: running })).toBe('stop-remote (give-up)');
  });

  it('P4: discards a sandbox that never comes up', () => {
    const starting = { ...NO_FACTS, sandbox: 'starting' as const, probedAt: NOW };
    const young = record('provisioning', { sandboxId: 'sb-1' });
    const old = { ...young, stageSince: NOW - DEFAULT_RULES.bootTimeoutMs };
    expect(plan({ record: young, facts: starting })).toBe('wait');
    expect(plan({ record: old, facts: starting })).toBe('discard-sandbox');
    // It has come up while its destroy was on its way.
    const up = { ...NO_FACTS, sandbox: 'running' as const, probedAt: NOW };
    expect(plan({ record: { ...young, destroyAsked: true }, facts: up })).toBe('discard-sandbox');
  });

  it('P5: looks less often at a machine while looks fail', () => {
    const starting = record('provisioning', { sandboxId: 'sb-1' });
    const waits = (unanswered: number): unknown => {
      const facts: Facts = { ...NO_FACTS, sandbox: 'starting', probedAt: NOW, unanswered };
      return nextStep(view({ record: starting, facts }), { ...DEFAULT_RULES, bootPollMs: 500 });
    };
    expect(waits(0)).toMatchObject({ until: NOW + 500 });
    expect(waits(2)).toMatchObject({ until: NOW + 2_000 });
    expect(waits(99)).toMatchObject({ until: NOW + 8_000 });
  });

  it('makes nothing for a session that may have gone', () => {
    const looked = { ...NO_FACTS, sandbox: 'none' as const, confirmedAt: NOW };
    const sighting = { gist: 'absent' as const, looks: 1 };
    expect(plan({ record: record('claimed'), sighting, facts: looked })).toBe('wait');
    expect(plan({ record: record('provisioning'), sighting, facts: looked })).toBe('wait');
  });
});

describe('while serving', () => {
  it('L5: keeps serving through a flash of suspended, and asks again', () => {
    const flash = { gist: 'over' as const, looks: 1 };
    expect(plan({ record: serving(), sighting: flash, facts: running })).toBe('look');
    const asked = { ...running, confirmedAt: NOW };
    expect(plan({ record: serving(), sighting: { gist: 'over', looks: 2 }, facts: asked })).toBe('wait');
    expect(plan({ record: serving(), sighting: { gist: 'over', looks: 3 }, facts: asked })).toBe(
      'stop-remote (suspend)',
    );
  });

  it('believes one look when the remote has exited by itself', () => {
    const exited = { ...running, remote: 'exited' as const };
    expect(plan({ record: serving(), sighting: { gist: 'absent', looks: 1 }, facts: exited })).toBe(
      'stop-remote (suspend)',
    );
  });

  it('R2: asks the queue five times before it overrules it about an exited remote', () => {
    const exited = { ...running, remote: 'exited' as const };
    expect(plan({ record: serving(), facts: { ...exited, looksSinceExit: 4 } })).toBe('look');
    expect(plan({ record: serving(), facts: { ...exited, looksSinceExit: 5 } })).toBe(
      'stop-remote (suspend)',
    );
  });

  it('relaunches a failed remote with growing waits, then gives up', () => {
    const failed = { ...running, remote: 'failed' as const };
    const launched = (launches: number, agoMs: number): SessionRecord =>
      serving({ launches, remote: { launchId: 'l', sha: 'abcdef', launchedAt: NOW - agoMs } });
    expect(plan({ record: launched(1, 10), facts: failed })).toBe('prepare');
    expect(plan({ record: launched(2, 10), facts: failed })).toBe('wait');
    expect(plan({ record: launched(2, DEFAULT_RULES.relaunchFirstMs), facts: failed })).toBe('prepare');
    expect(plan({ record: launched(5, 5_000), facts: failed })).toBe('wait');
    expect(plan({ record: launched(6, 999_999), facts: failed })).toBe('stop-remote (give-up)');
  });

  it('gives up on a session whose sandboxes keep vanishing', () => {
    const lost = { ...NO_FACTS, sandbox: 'ended' as const };
    expect(plan({ record: serving({ launches: 6 }), facts: lost })).toBe('stop-remote (give-up)');
  });

  it('archives a checkpoint when the newest archive is old, also before the first one', () => {
    const rules = { checkpointEveryMs: 60_000 };
    expect(plan({ record: serving(), facts: running }, rules)).toBe('checkpoint');
    const archive = { snapshotId: 's-1', takenAt: NOW - 30_000, sandboxId: 'sb-1' };
    expect(plan({ record: serving({ archive }), facts: running }, rules)).toBe('wait');
    expect(plan({ record: serving(), facts: running }, { checkpointEveryMs: 0 })).toBe('wait');
  });

  it('S6: archives a session in time although its remote is launched again and again', () => {
    const remote = { launchId: 'l-9', sha: 'abcdef', launchedAt: NOW - 1_000 };
    const record = serving({ remote, stageSince: NOW - 1_000, launches: 3 });
    expect(plan({ record, facts: running }, { checkpointEveryMs: 60_000 })).toBe('checkpoint');
  });

  it('S6: archives and rolls over what cannot be seen', () => {
    for (const sandbox of ['running', 'unknown'] as const) {
      const facts: Facts = { ...NO_FACTS, sandbox, probedAt: NOW };
      expect(plan({ record: serving(), facts }, { checkpointEveryMs: 60_000 })).toBe('checkpoint');
      expect(plan({ record: serving({ lifetimeEndsAt: NOW }), facts })).toBe('stop-remote (roll-over)');
    }
  });

  it('S6: a roll-over that has to wait for the queue leaves an archive behind, once', () => {
    const unseen = { gist: 'unseen' as const, looks: 0 };
    const lifetimeEndsAt = NOW + DEFAULT_RULES.lifetimeMarginMs - 1_000;
    expect(plan({ record: serving({ lifetimeEndsAt }), sighting: unseen, facts: running })).toBe(
      'checkpoint',
    );
    const archive = { snapshotId: 's-1', takenAt: NOW - 500, sandboxId: 'sb-1' };
    const saved = serving({ lifetimeEndsAt, archive });
    const decision = nextStep(view({ record: saved, sighting: unseen, facts: running }), DEFAULT_RULES);
    expect(decision).toMatchObject({ kind: 'wait', until: NOW + DEFAULT_RULES.probeEveryMs });
  });

  it('looks at the remote before it archives or deletes, which may fail for long', () => {
    const due: Facts = { ...running, probedAt: NOW - DEFAULT_RULES.probeEveryMs };
    const record = serving({ obsolete: ['s-0'] });
    expect(plan({ record, facts: due }, { checkpointEveryMs: 60_000 })).toBe('probe');
    expect(plan({ record, facts: running }, { checkpointEveryMs: 60_000 })).toBe('checkpoint');
    expect(plan({ record, facts: running })).toBe('tidy');
  });

  it('L7: asks for archives again after a while where there were none', () => {
    const asked = { sandboxId: 'sb-1', askedAt: NOW - 10, before: [], failures: 0, unsupported: true };
    const rules = { checkpointEveryMs: 60_000 };
    const waits = serving({ archiving: { ...asked, retryAt: NOW + 1 } });
    expect(plan({ record: waits, facts: running }, rules)).toBe('wait');
    const due = serving({ archiving: { ...asked, retryAt: NOW }, lifetimeEndsAt: NOW });
    expect(plan({ record: due, facts: running }, rules)).toBe('checkpoint');
  });

  it('S6: rolls over before the platform ends the sandbox', () => {
    const near = serving({ lifetimeEndsAt: NOW + DEFAULT_RULES.lifetimeMarginMs });
    const far = serving({ lifetimeEndsAt: NOW + DEFAULT_RULES.lifetimeMarginMs + 60_000 });
    expect(plan({ record: near, facts: running })).toBe('stop-remote (roll-over)');
    expect(plan({ record: far, facts: running })).toBe('wait');
  });

  it('does not roll over again while the last archive has only just failed', () => {
    const archiving = {
      sandboxId: 'sb-1',
      askedAt: NOW - 5_000,
      before: [],
      failures: 1,
      retryAt: NOW + 30_000,
    };
    const near = serving({ lifetimeEndsAt: NOW + 1_000, archiving });
    expect(plan({ record: near, facts: running })).toBe('wait');
  });

  it('deletes archives that a newer one has replaced', () => {
    expect(plan({ record: serving({ obsolete: ['s-0'] }), facts: running })).toBe('tidy');
  });

  it('suspends when the daemon drains', () => {
    expect(plan({ record: serving(), facts: running, draining: true })).toBe('stop-remote (drain)');
  });
});

describe('while suspending', () => {
  const stopped = (over: Partial<SessionRecord> = {}): SessionRecord =>
    record('suspending', { sandboxId: 'sb-1', ending: 'suspend', remoteStoppedAt: NOW - 100, ...over });
  const facts: Facts = { ...NO_FACTS, sandbox: 'running', probedAt: NOW };
  const sighting = sightingOf('suspend');
  const archive = (takenAt: number) => ({ snapshotId: 's-1', takenAt, sandboxId: 'sb-1' });

  it('S1: destroys only after an archive that was taken after the remote stopped', () => {
    expect(plan({ record: stopped(), facts, sighting })).toBe('archive');
    expect(plan({ record: stopped({ archive: archive(NOW - 100) }), facts, sighting })).toBe('archive');
    expect(plan({ record: stopped({ archive: archive(NOW - 99) }), facts, sighting })).toBe('destroy');
  });

  it('does not take another sandbox’s archive for its own', () => {
    const other = { ...archive(NOW), sandboxId: 'sb-0' };
    expect(plan({ record: stopped({ archive: other }), facts, sighting })).toBe('archive');
  });

  it('destroys without an archive what never held work', () => {
    expect(plan({ record: stopped({ fresh: true }), facts, sighting })).toBe('destroy');
    const starting = { ...facts, sandbox: 'starting' as const };
    expect(plan({ record: stopped({ fresh: true }), facts: starting, sighting })).toBe('destroy');
  });

  it('S2: keeps the sandbox while its archive fails, and serves it again when it is wanted', () => {
    const archiving = {
      sandboxId: 'sb-1',
      askedAt: NOW - 50,
      before: [],
      failures: 1,
      retryAt: NOW + 30_000,
    };
    expect(plan({ record: stopped({ archiving }), facts, sighting })).toBe('wait');
    expect(plan({ record: stopped({ archiving }), facts, sighting: sightingOf('claimable') })).toBe('revive');
    const due = { ...archiving, retryAt: NOW };
    expect(plan({ record: stopped({ archiving: due }), facts, sighting })).toBe('archive');
  });

  it('L7: keeps the sandbox where there are no archives, and goes on in it at a roll-over', () => {
    const asked = { sandboxId: 'sb-1', askedAt: NOW, before: [], failures: 0 };
    const archiving = { ...asked, unsupported: true, retryAt: NOW + 1 };
    expect(plan({ record: stopped({ archiving }), facts, sighting })).toBe('settle');
    expect(plan({ record: stopped({ archiving, ending: 'roll-over' }), facts })).toBe('revive');
    const yielding = stopped({ archiving, ending: 'yield', ownerConfirmed: true });
    expect(plan({ record: yielding, facts, sighting: sightingOf('yield') })).toBe('forget');
    // They may have been enabled since.
    expect(plan({ record: stopped({ archiving: { ...archiving, retryAt: NOW } }), facts, sighting })).toBe(
      'archive',
    );
  });

  it('S2: a session whose archive fails is not held for ever by an ending that nobody waits for', () => {
    const archiving = { sandboxId: 'sb-1', askedAt: NOW, before: [], failures: 3, retryAt: NOW + 1 };
    expect(plan({ record: stopped({ archiving, ending: 'drain' }), facts })).toBe('revive');
    expect(plan({ record: stopped({ archiving, ending: 'drain' }), facts, draining: true })).toBe('wait');
    expect(plan({ record: stopped({ archiving, ending: 'give-up' }), facts })).toBe('wait');
    const remoteStoppedAt = NOW - DEFAULT_RULES.archivePatienceMs;
    expect(plan({ record: stopped({ archiving, ending: 'give-up', remoteStoppedAt }), facts })).toBe(
      'settle',
    );
  });

  it('L7: obeys the suspend mode for sleeping sessions, never for a roll-over', () => {
    expect(plan({ record: stopped(), facts, sighting }, { suspendMode: 'keep' })).toBe('settle');
    for (const ending of ['roll-over', 'drain', 'give-up', 'yield'] as const) {
      const record = stopped({ ending, ownerConfirmed: true });
      expect(plan({ record, facts }, { suspendMode: 'discard' }), ending).toBe('archive');
    }
  });

  it('Q10: waits for the new holder before it touches a sandbox that it has lost', () => {
    const yielding = stopped({ ending: 'yield' });
    const wish = sightingOf('yield');
    expect(plan({ record: yielding, facts, sighting: wish })).toBe('wait');
    const over = { ...yielding, remoteStoppedAt: NOW - DEFAULT_RULES.yieldGraceMs };
    expect(plan({ record: over, facts, sighting: wish })).toBe('confirm-owner');
    expect(plan({ record: { ...over, ownerConfirmed: true }, facts, sighting: wish })).toBe('archive');
  });
});

describe('while asleep', () => {
  const asleep = record('suspended', { archive: { snapshotId: 's-1', takenAt: NOW, sandboxId: 'sb-0' } });

  it('L6: deletes the archive when its time is over', () => {
    const old = { ...asleep, stageSince: NOW - DEFAULT_RULES.retentionMs };
    const absent = { gist: 'absent' as const, looks: 9 };
    expect(plan({ record: asleep, sighting: absent, ours: false })).toBe('wait');
    expect(plan({ record: old, sighting: absent, ours: false })).toBe('terminate');
    expect(nextStep(view({ record: record('terminating', { ending: 'expire' }) }), DEFAULT_RULES)).toEqual({
      kind: 'step',
      step: { do: 'terminate', why: 'expired' },
    });
  });

  it('L4: an absent session is asleep, whatever else is forgotten', () => {
    const absent = { gist: 'absent' as const, looks: 1_000 };
    expect(plan({ record: asleep, sighting: absent, ours: false })).not.toBe('terminate');
  });
});

describe('where nothing of a sleeping session is kept', () => {
  const discard = { suspendMode: 'discard' } as const;
  const sighting = sightingOf('suspend');

  it('L7: gives a session up that falls asleep, whether its machine is at work or still on its way', () => {
    expect(plan({ record: serving(), sighting, facts: running }, discard)).toBe('terminate');
    expect(plan({ record: record('preparing', { sandboxId: 'sb-1' }), sighting }, discard)).toBe('terminate');
  });

  it('L7: keeps the work of a session that nobody has put to sleep', () => {
    const facts: Facts = { ...running, remote: 'exited', looksSinceExit: DEFAULT_RULES.exitLooks };
    expect(plan({ record: serving(), facts }, discard)).toBe('stop-remote (suspend)');
    expect(plan({ record: serving(), facts: running, draining: true }, discard)).toBe('stop-remote (drain)');
    const ordered = serving({ order: 'suspend' });
    expect(plan({ record: ordered, sighting, facts: running }, discard)).toBe('stop-remote (suspend)');
  });

  it('L7: keeps what was archived before until its time is over', () => {
    const archive = { snapshotId: 's-1', takenAt: NOW, sandboxId: 'sb-0' };
    expect(plan({ record: record('suspended', { archive }), sighting, ours: false }, discard)).toBe('wait');
    expect(plan({ record: record('claimed', { archive }), sighting }, discard)).toBe('withdraw (suspend)');
  });
});

describe('ordered by hand', () => {
  const kept = record('suspended', { sandboxId: 'sb-1', kept: true });

  it('O8: takes a session down although the queue wants it, in every stage', () => {
    expect(plan({ record: serving({ order: 'suspend' }), facts: running })).toBe('stop-remote (suspend)');
    expect(plan({ record: serving({ order: 'release' }), facts: running })).toBe('stop-remote (release)');
    expect(plan({ record: record('claimed', { order: 'release' }) })).toBe('withdraw (release)');
    expect(plan({ record: record('provisioning', { order: 'suspend' }) })).toBe('withdraw (suspend)');
    for (const stage of STAGES) {
      expect(plan({ record: record(stage, { order: 'terminate' }) }), stage).toBe('terminate');
    }
  });

  it('O8: does not touch what another daemon may work from, from the first look on', () => {
    const sighting = { gist: 'elsewhere' as const, looks: 1 };
    const asleep = record('suspended', { order: 'terminate' });
    expect(plan({ record: asleep, sighting, ours: false })).not.toBe('terminate');
    expect(plan({ record: asleep, sighting: sightingOf('yield'), ours: false })).toBe('forget');
  });

  it('O8: stops deleting when another daemon has the session by now; never when Devin has ended it', () => {
    const ordered = record('terminating', { order: 'terminate' });
    const first = { gist: 'elsewhere' as const, looks: 1 };
    expect(plan({ record: ordered, sighting: first, ours: false })).toBe('look');
    expect(plan({ record: ordered, sighting: sightingOf('yield'), ours: false })).toBe('forget');
    expect(plan({ record: record('terminating'), sighting: sightingOf('yield') })).toBe('terminate');
    expect(plan({ record: ordered, sighting: sightingOf('terminate') })).toBe('terminate');
  });

  it('O8: deletes what Devin has ended, whatever was ordered', () => {
    const sighting = sightingOf('terminate');
    expect(plan({ record: serving({ order: 'suspend' }), sighting, facts: running })).toBe('terminate');
  });

  it('O8: does not serve a session again whose archive fails, while it is ordered away', () => {
    const archiving = {
      sandboxId: 'sb-1',
      askedAt: NOW - 50,
      before: [],
      failures: 1,
      retryAt: NOW + 30_000,
    };
    const stopped = record('suspending', {
      sandboxId: 'sb-1',
      ending: 'suspend',
      remoteStoppedAt: NOW - 100,
      archiving,
    });
    const facts: Facts = { ...NO_FACTS, sandbox: 'running', probedAt: NOW };
    expect(plan({ record: stopped, facts })).toBe('revive');
    expect(plan({ record: { ...stopped, order: 'suspend' }, facts })).toBe('wait');
  });

  it('O8: archives what is handed over, also where SUSPEND_MODE keeps or discards', () => {
    const facts: Facts = { ...NO_FACTS, sandbox: 'running', probedAt: NOW };
    const stopped = record('suspending', {
      sandboxId: 'sb-1',
      ending: 'release',
      order: 'release',
      remoteStoppedAt: NOW - 100,
    });
    for (const suspendMode of ['snapshot', 'keep', 'discard'] as const) {
      expect(plan({ record: stopped, facts }, { suspendMode }), suspendMode).toBe('archive');
    }
    expect(plan({ record: { ...kept, order: 'release' } })).toBe('stop-remote (release)');
  });

  it('O8: knows when nothing is left to do', () => {
    expect(isDone(record('suspended'), 'suspend')).toBe(true);
    expect(isDone(record('suspended'), 'release')).toBe(true);
    expect(isDone(kept, 'release')).toBe(false);
    expect(isDone(record('suspended'), 'terminate')).toBe(false);
    expect(isDone(record('suspending'), 'suspend')).toBe(false);
  });
});
