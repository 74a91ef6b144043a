import { describe, expect, it } from 'vitest';
import { admission, coolDownMs, leftAlone, type AdmissionRules } from '../../src/session/admission.ts';
import { amend, archived, enter, newRecord, OF_THE_SANDBOX } from '../../src/session/amend.ts';
import { isOutlived, judgeStray, sweepAllowance, type Stray } from '../../src/session/cleanup.ts';
import { gistOf } from '../../src/session/gist.ts';
import { DEFAULT_RULES } from '../../src/session/rules.ts';
import { STAGES, type QueueEntry, type SessionRecord } from '../../src/session/session.ts';
import { wishOf } from '../../src/session/wish.ts';
import { NOW, record } from './view.ts';

function entry(over: Partial<QueueEntry> = {}): QueueEntry {
  return {
    sessionId: 'devin-1',
    kind: 'new',
    platform: 'linux',
    phase: 'pending',
    status: 'pending',
    ...over,
  };
}

describe('the gist of an entry', () => {
  it.each([
    [entry(), 'available'],
    [entry({ status: 'running' }), 'available'],
    [entry({ status: 'unknown' }), 'available'],
    [entry({ phase: 'claimed', acceptorId: 'me' }), 'held'],
    [entry({ phase: 'claimed', acceptorId: 'me', status: 'running' }), 'held'],
    [entry({ phase: 'claimed', acceptorId: 'other' }), 'elsewhere'],
    [entry({ phase: 'claimed' }), 'unclear'],
    [entry({ phase: 'unknown' }), 'unclear'],
    [entry({ status: 'suspended' }), 'over'],
    [entry({ status: 'suspended', phase: 'claimed', acceptorId: 'me' }), 'over'],
    [entry({ status: 'over' }), 'over'],
    [entry({ status: 'terminated', phase: 'claimed', acceptorId: 'other' }), 'terminated'],
  ])('%o is %s', (one, gist) => {
    expect(gistOf(one, 'me')).toBe(gist);
  });

  it('never reads an absent or unknown entry as terminated, however often it is seen', () => {
    for (const gist of ['absent', 'over', 'unseen', 'unclear'] as const) {
      for (const remote of ['unknown', 'running', 'exited', 'failed'] as const) {
        expect(wishOf({ gist, looks: 1_000 }, remote, DEFAULT_RULES)).not.toBe('terminate');
      }
    }
  });
});

describe('admission', () => {
  const rules: AdmissionRules = { canEnforce: (policy) => policy?.enabled !== true };
  const policy = { enabled: true, allow: [] };

  it.each([
    [entry(), undefined],
    [entry({ status: 'running' }), undefined],
    [entry({ phase: 'claimed' }), 'phase'],
    [entry({ phase: 'unknown' }), 'phase'],
    [entry({ status: 'suspended' }), 'status'],
    [entry({ status: 'terminated' }), 'status'],
    [entry({ status: 'over' }), 'status'],
    [entry({ status: 'unknown' }), 'status'],
    [entry({ platform: 'windows' }), 'platform'],
    [entry({ networkPolicy: policy }), 'network-policy'],
    [entry({ networkPolicy: { enabled: false, allow: [] } }), undefined],
  ])('Q7: judges %o: %s', (one, refusal) => {
    const verdict = admission(one, undefined, NOW, rules);
    expect(verdict.kind === 'refused' ? verdict.refusal : undefined).toBe(refusal);
  });

  it('P3: refuses a session while it cools down, and says until when', () => {
    const failures = { sessionId: 'devin-1', attempts: 3, coolUntil: NOW + 1, reason: 'x' };
    expect(admission(entry(), failures, NOW, rules)).toEqual({
      kind: 'refused',
      refusal: 'cooling-down',
      until: NOW + 1,
    });
    expect(admission(entry(), failures, NOW + 1, rules).kind).toBe('admissible');
  });

  it('O8: leaves a session alone that was ended by hand, and holds nothing against it', () => {
    const left = leftAlone('devin-1', undefined, 'suspend', NOW);
    expect(left.coolUntil - NOW).toBeGreaterThan(300_000);
    expect(admission(entry(), left, NOW, rules)).toMatchObject({ refusal: 'by-hand', until: left.coolUntil });
    expect(admission(entry(), left, left.coolUntil, rules).kind).toBe('admissible');
    expect(left.attempts).toBe(0);
    const failing = { sessionId: 'devin-1', attempts: 7, coolUntil: NOW + 3_600_000, reason: 'x' };
    expect(leftAlone('devin-1', failing, 'release', NOW)).toMatchObject({
      attempts: 7,
      coolUntil: NOW + 3_600_000,
    });
  });

  it('P3: waits longer after each failure, up to an hour, and not at all after the first', () => {
    const waits = Array.from({ length: 12 }, (_, attempts) => coolDownMs(attempts));
    expect(waits.slice(0, 4)).toEqual([0, 0, 60_000, 120_000]);
    expect(waits.at(-1)).toBe(3_600_000);
    expect(waits).toEqual(waits.toSorted((left, right) => left - right));
  });
});

describe('the janitor’s judgement', () => {
  const grace = 60_000;
  const stray = (over: Partial<Stray>): Stray => ({
    state: 'running',
    knownForMs: grace,
    createPending: false,
    marker: { kind: 'none' },
    ...over,
  });

  it('J2: never condemns a young sandbox, nor any while a create is unanswered', () => {
    for (const state of ['starting', 'running', 'ending'] as const) {
      for (const kind of ['none', 'foreign'] as const) {
        expect(judgeStray(stray({ state, marker: { kind }, knownForMs: grace - 1 }), grace).do).toBe('leave');
        expect(judgeStray(stray({ state, marker: { kind }, createPending: true }), grace).do).toBe('leave');
      }
    }
  });

  it('leaves what another daemon has taken over, however old', () => {
    expect(judgeStray(stray({ marker: { kind: 'foreign' }, knownForMs: 1e12 }), grace).do).toBe('leave');
  });

  it('reads the marker before it says anything about a running sandbox', () => {
    expect(judgeStray(stray({ marker: { kind: 'unread' } }), grace).do).toBe('read-marker');
  });

  it('adopts what a lost index forgot, at once', () => {
    expect(judgeStray(stray({ marker: { kind: 'ours', record: undefined }, knownForMs: 0 }), grace).do).toBe(
      'adopt',
    );
  });

  it('removes an old sandbox that nothing was ever put into', () => {
    expect(judgeStray(stray({}), grace).do).toBe('destroy');
    expect(judgeStray(stray({ state: 'starting' }), grace).do).toBe('destroy');
  });

  it('J3: removes a suspended session’s sandbox only when there is an archive', () => {
    const archive = { snapshotId: 's', takenAt: NOW, sandboxId: 'sb' };
    const judge = (over: Partial<SessionRecord>) =>
      judgeStray(stray({ marker: { kind: 'ours', record: record('suspended', over) } }), grace).do;
    expect(judge({})).toBe('leave');
    expect(judge({ archive })).toBe('destroy');
  });

  it('leaves a sandbox to a session that is looking for one', () => {
    for (const stage of ['claimed', 'provisioning'] as const) {
      expect(judgeStray(stray({ marker: { kind: 'ours', record: record(stage) } }), grace).do).toBe('leave');
    }
  });

  it('J1: raises the alarm instead of removing most of the fleet, and removes a few at a time', () => {
    expect(sweepAllowance(0, 0)).toBe(0);
    expect(sweepAllowance(3, 3)).toBe(3);
    expect(sweepAllowance(6, 11)).toBe(0);
    expect(sweepAllowance(40, 200)).toBe(20);
    expect(sweepAllowance(150, 200)).toBe(0);
  });
});

describe('changing a record', () => {
  it('counts failures anew in each stage', () => {
    const next = amend(record('claimed', { failures: 3 }), enter('provisioning', NOW), NOW);
    expect(next).toMatchObject({ stage: 'provisioning', stageSince: NOW, failures: 0 });
  });

  it('clears what belonged to the old sandbox and nothing else', () => {
    const full = record('serving', {
      sandboxId: 'sb',
      fresh: false,
      remote: { launchId: 'l', launchedAt: NOW },
      archive: { snapshotId: 's', takenAt: NOW, sandboxId: 'sb' },
      obsolete: ['o'],
    });
    const next = amend(full, { clear: OF_THE_SANDBOX }, NOW);
    expect(Object.keys(next)).not.toContain('sandboxId');
    expect(Object.keys(next)).not.toContain('remote');
    expect(next.archive).toEqual(full.archive);
    expect(next.obsolete).toEqual(['o']);
  });

  it('S3: lets the older archive go only in the change that records the newer one', () => {
    const first = { snapshotId: 's-1', takenAt: NOW, sandboxId: 'sb' };
    const second = { ...first, snapshotId: 's-2' };
    const before = record('suspending', { archive: first, obsolete: ['s-0'] });
    const after = amend(before, archived(before, second), NOW);
    expect(after.archive).toEqual(second);
    expect(after.obsolete).toEqual(['s-0', 's-1']);
    expect(amend(after, archived(after, second), NOW).obsolete).toEqual(['s-0', 's-1']);
  });

  it('makes a record that every stage accepts', () => {
    for (const stage of STAGES) expect(newRecord(entry(), stage, 1, NOW).stage).toBe(stage);
  });
});

describe('the memory of failures', () => {
  const history = { sessionId: 'devin-1', attempts: 2, coolUntil: NOW, reason: 'x' };
  const gone = { gist: 'absent', looks: 1 } as const;

  it('ends when the session has cooled down and left the queue, and nothing of it is here', () => {
    expect(isOutlived(history, undefined, gone, NOW)).toBe(true);
    expect(isOutlived(history, undefined, { gist: 'terminated', looks: 1 }, NOW)).toBe(true);
  });

  it('goes on while it cools down, waits, is served elsewhere, has a record, or nothing is known', () => {
    expect(isOutlived(history, undefined, gone, NOW - 1)).toBe(false);
    expect(isOutlived(history, record('suspended'), gone, NOW)).toBe(false);
    for (const gist of ['available', 'held', 'elsewhere', 'over', 'unseen', 'unclear'] as const) {
      expect(isOutlived(history, undefined, { gist, looks: 9 }, NOW), gist).toBe(false);
    }
  });
});
