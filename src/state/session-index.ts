/** The durable memory: STATE_DIR/sandbox_index.json. (Interface first; the implementation follows in this file.) */
import type { FailureHistory, SessionRecord } from '../session/session.ts';
import type { SandboxName } from '../sandboxes/names.ts';

export interface SessionIndex {
  get(name: SandboxName): SessionRecord | undefined;
  entries(): IterableIterator<[SandboxName, SessionRecord]>;
  readonly size: number;
  /** In memory at once; on disk with the next commit. A record equal in content is not a change. */
  put(name: SandboxName, record: SessionRecord): void;
  delete(name: SandboxName): void;
  failures(name: SandboxName): FailureHistory | undefined;
  putFailures(name: SandboxName, history: FailureHistory): void;
  clearFailures(name: SandboxName): void;
  /**
   * Resolves when every change made before the call is on disk. Callers at the same time share one write.
   * @throws DvoError `state`; the change stays in memory and goes with the next commit
   */
  commit(): Promise<void>;
  /** Undefined while commits succeed, else why the last one failed. No new claims while it is set. */
  readonly trouble: string | undefined;
}
