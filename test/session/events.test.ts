import { describe, expect, it } from 'vitest';
import { amend, enter, newRecord } from '../../src/session/amend.ts';
import { event, eventsBetween, MOST_EVENTS, withEvent } from '../../src/session/events.ts';
import type { SessionEvent, SessionRecord } from '../../src/session/session.ts';

const made = newRecord({ sessionId: 'devin-a', kind: 'new' }, 'claimed', 1, 10);
const told = (before: SessionRecord | undefined, after: SessionRecord) =>
  eventsBetween(before, after).map(({ what, detail }) =>
    detail === undefined ? what : `${what}: ${detail}`,
  );

describe('what is told of a record’s change', () => {
  it('a stage is told when it is entered, with its time, and once', () => {
    expect(eventsBetween(undefined, made)).toEqual([{ at: 10, what: 'claimed', stage: 'claimed' }]);
    expect(eventsBetween(made, amend(made, {}, 20))).toEqual([]);
    const serving = amend(made, enter('serving', 30), 31);
    expect(eventsBetween(made, serving)).toEqual([{ at: 30, what: 'serving', stage: 'serving' }]);
  });

  it('a fault is told with its step, again when it comes again, and not when something else changes', () => {
    const failed = amend(made, { set: { lastError: { at: 20, step: 'claim', message: 'no answer' } } }, 20);
    expect(told(made, failed)).toEqual(['step failed: claim: no answer']);
    expect(told(failed, amend(failed, { set: { failures: 1 } }, 21))).toEqual([]);
    const again = amend(failed, { set: { lastError: { at: 22, step: 'claim', message: 'no answer' } } }, 22);
    expect(told(failed, again)).toHaveLength(1);
    const lastError = { at: 20, step: 'remote', message: 'it ended with exit code 3' };
    expect(told(made, amend(made, { set: { lastError } }, 20))).toEqual([
      'remote ended: it ended with exit code 3',
    ]);
  });

  it('sandboxes, relaunches and archives are told', () => {
    const up = amend(made, enter('provisioning', 20, { set: { sandboxId: 'sbx-1' } }), 20);
    expect(told(made, up)).toEqual(['sandbox asked for', 'sandbox assigned: sbx-1']);
    const relaunched = amend(up, { set: { launches: 2 } }, 30);
    expect(told(up, relaunched)).toEqual(['remote launched again: launch 2 in a row']);
    const archive = { snapshotId: 'snap-1', takenAt: 40, sandboxId: 'sbx-1' };
    const archived = amend(up, { set: { archive } }, 41);
    expect(told(up, archived)).toEqual(['archive ready: snap-1']);
    const asleep = amend(archived, enter('suspended', 50, { clear: ['sandboxId'] }), 50);
    expect(told(archived, asleep)).toEqual(['sandbox destroyed: sbx-1', 'asleep']);
    expect(told(up, amend(up, { clear: ['sandboxId'] }, 60))).toEqual(['sandbox gone: sbx-1']);
  });

  it('the end of the life says why', () => {
    expect(told(made, amend(made, enter('suspending', 20, { set: { ending: 'give-up' } }), 20))).toEqual([
      'being taken down: it keeps failing',
    ]);
  });
});

describe('the ring of events', () => {
  it('keeps the newest hundred, in the order of time', () => {
    let ring: readonly SessionEvent[] = [];
    for (let at = 0; at < MOST_EVENTS + 5; at += 1) ring = withEvent(ring, event(at, 'thing', String(at)));
    expect(ring).toHaveLength(MOST_EVENTS);
    expect(ring[0]?.at).toBe(5);
    ring = withEvent(ring, event(7.5, 'late news'));
    expect(ring.map(({ at }) => at)).toEqual(ring.map(({ at }) => at).toSorted((a, b) => a - b));
  });

  it('counts what repeats itself, so that a night of failures does not hide how it began', () => {
    let ring = withEvent([], event(1, 'claimed'));
    for (let at = 2; at < 1_000; at += 1)
      ring = withEvent(ring, event(at, 'step failed', 'probe: no answer'));
    expect(ring).toEqual([
      { at: 1, what: 'claimed' },
      { at: 2, what: 'step failed', detail: 'probe: no answer', times: 998, lastAt: 999 },
    ]);
  });
});
