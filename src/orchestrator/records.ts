/**
 * The session index with its counts kept up to date, so that asking for a free slot costs nothing. Every change of a
 * record passes here, and leaves what happened in the history.
 */
import type { Life, Tracer } from '../lib/tracer.ts';
import { eventsBetween } from '../session/events.ts';
import type { SessionRecord, Stage } from '../session/session.ts';
import type { History } from './history.ts';
import type { SandboxName } from '../sandboxes/names.ts';
import type { SessionIndex } from '../state/session-index.ts';

export interface Records extends SessionIndex {
  /** Names of the records whose stage has or is getting a machine. */
  readonly atWork: ReadonlySet<SandboxName>;
  readonly stages: Readonly<Record<Stage, number>>;
}

/**
 * Every stage but `suspended`: a kept sandbox whose remote is stopped is not at work. A sleeping session that is being
 * deleted or handed over has no machine either, and its end must not wait for a slot, nor push another out of one.
 */
export function holdsSlot(record: SessionRecord): boolean {
  if (record.stage === 'suspended') return false;
  if (record.stage === 'suspending') return record.kept !== true;
  if (record.stage !== 'terminating') return true;
  return record.kept !== true && (record.sandboxId !== undefined || record.createAskedAt !== undefined);
}

/** Sessions that cannot be archived, so that their sandbox is all there is of their work. */
export function keptForWant(index: Pick<SessionIndex, 'entries'>): number {
  let count = 0;
  for (const [, { kept, archiving }] of index.entries())
    if (kept === true || archiving?.unsupported === true) count += 1;
  return count;
}

/** From the claim until the record goes, over all sleeps. */
export function lifeOf(name: SandboxName, record: SessionRecord): Life {
  return { sessionId: record.sessionId, sandbox: name, startedAt: record.createdAt };
}

export function createRecords(index: SessionIndex, history: History, tracer: Tracer): Records {
  const atWork = new Set<SandboxName>();
  const stages: Record<Stage, number> = {
    claimed: 0,
    provisioning: 0,
    preparing: 0,
    serving: 0,
    suspending: 0,
    suspended: 0,
    terminating: 0,
  };
  const count = (
    name: SandboxName,
    before: SessionRecord | undefined,
    after: SessionRecord | undefined,
  ): void => {
    if (before !== undefined) stages[before.stage] -= 1;
    if (after !== undefined) stages[after.stage] += 1;
    if (after !== undefined && holdsSlot(after)) atWork.add(name);
    else atWork.delete(name);
  };
  for (const [name, record] of index.entries()) count(name, undefined, record);
  return {
    atWork,
    stages,
    get: (name) => index.get(name),
    entries: () => index.entries(),
    get size() {
      return index.size;
    },
    put(name, record) {
      const before = index.get(name);
      count(name, before, record);
      index.put(name, record);
      history.note(name, record.sessionId, eventsBetween(before, record));
    },
    delete(name) {
      const before = index.get(name);
      count(name, before, undefined);
      index.delete(name);
      history.end(name);
      if (before !== undefined) tracer.ended(lifeOf(name, before));
    },
    failures: (name) => index.failures(name),
    histories: () => index.histories(),
    putFailures: (name, history) => index.putFailures(name, history),
    clearFailures: (name) => index.clearFailures(name),
    commit: () => index.commit(),
    get trouble() {
      return index.trouble;
    },
  };
}
