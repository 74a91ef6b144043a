/**
 * Compares the platform with our records: adopts what a lost index forgot, removes what nothing needs (of our own
 * memory too), and notices sandboxes that are gone. It acts only after a whole pass over queue and platform, and errs
 * on the side of leaving.
 */
import type { Call } from '../lib/deadline.ts';
import { describeError } from '../lib/errors.ts';
import type { SandboxInfo } from '../sandboxes/provider.ts';
import { newRecord } from '../session/amend.ts';
import {
  isOutlived,
  judgeStray,
  sweepAllowance,
  type StrayMarker,
  type Verdict,
} from '../session/cleanup.ts';
import type { Deps } from './context.ts';
import { ownMarker } from './steps/find-sandbox.ts';
import { lifetimeOf } from './steps/step.ts';

export interface JanitorOptions {
  readonly deps: Deps;
  /** Below this age (since this process first saw it) a sandbox without a record is left alone. Milliseconds. */
  readonly graceMs: number;
  /** The record's sandbox is not in the platform's list: look at it before anything else. */
  readonly onMissing: (sessionId: string) => void;
  readonly onAdopted: (sessionId: string) => void;
}

interface Judged {
  readonly info: SandboxInfo;
  readonly verdict: Verdict;
  readonly sessionId: string | undefined;
}

export class Janitor {
  readonly #options: JanitorOptions;
  readonly #firstSeen = new Map<string, number>();
  /** When a record's sandbox was first missed; a list may lag behind a create. */
  #sweeps = 0;

  constructor(options: JanitorOptions) {
    this.#options = options;
  }

  /** How many whole sweeps have been made since the start. */
  get sweeps(): number {
    return this.#sweeps;
  }

  /**
   * One sweep. @throws what queue or platform throw when the pass is not whole; then nothing was done.
   */
  async sweep(signal: AbortSignal): Promise<void> {
    const { deps } = this.#options;
    if (!deps.queue.synced) {
      deps.recorder.janitor('skipped');
      return;
    }
    const call: Call = { timeoutMs: deps.limits.platformMs, signal };
    const tags = [deps.identity.acceptorTag];
    const listed = await deps.provider.list({ tags, include: 'active' }, call);
    this.#remember(listed);
    this.#noteMissing(listed);
    const strays = this.#strays(listed);
    const judged: Judged[] = [];
    for (const info of strays) judged.push(await this.#judge(info, call));
    for (const one of judged) if (one.verdict.do === 'adopt') this.#adopt(one);
    await this.#destroy(judged, listed.length, call);
    this.#forgetFailures();
    this.#sweeps += 1;
    deps.recorder.janitor('sweep');
  }

  #remember(listed: readonly SandboxInfo[]): void {
    const now = this.#options.deps.clock.now();
    const ids = new Set(listed.map((info) => info.id));
    for (const id of ids) if (!this.#firstSeen.has(id)) this.#firstSeen.set(id, now);
    for (const id of this.#firstSeen.keys()) if (!ids.has(id)) this.#firstSeen.delete(id);
  }

  /** A session that left the queue between two tries tells nobody that it did. */
  #forgetFailures(): void {
    const { index, queue, clock } = this.#options.deps;
    for (const [name, history] of index.histories()) {
      const sighting = queue.sighting(history.sessionId);
      if (isOutlived(history, index.get(name), sighting, clock.now())) index.clearFailures(name);
    }
  }

  /** A list that lacks a record's sandbox proves nothing; its own lane asks for that one. */
  #noteMissing(listed: readonly SandboxInfo[]): void {
    const { deps, onMissing } = this.#options;
    const ids = new Set(listed.map((info) => info.id));
    for (const name of deps.index.atWork) {
      const record = deps.index.get(name);
      if (record?.sandboxId === undefined || ids.has(record.sandboxId)) continue;
      onMissing(record.sessionId);
    }
  }

  #strays(listed: readonly SandboxInfo[]): readonly SandboxInfo[] {
    const owned = new Set<string>();
    for (const [, record] of this.#options.deps.index.entries()) {
      if (record.sandboxId !== undefined) owned.add(record.sandboxId);
    }
    return listed.filter((info) => !owned.has(info.id));
  }

  async #judge(info: SandboxInfo, call: Call): Promise<Judged> {
    const { deps, graceMs } = this.#options;
    const { sessionId, marker } = info.state === 'running' ? await this.#marker(info, call) : UNREAD;
    // Anything that its lane has taken up while we looked is not a stray any more.
    const owned = [...deps.index.entries()].some(([, record]) => record.sandboxId === info.id);
    if (owned || info.state === 'ended')
      return { info, sessionId, verdict: { do: 'leave', why: 'it has a record' } };
    const firstSeen = this.#firstSeen.get(info.id) ?? deps.clock.now();
    const knownForMs = deps.clock.now() - firstSeen;
    // What was there before a create was asked for is not what it made.
    const createPending = [...deps.index.atWork].some(
      (name) => (deps.index.get(name)?.createAskedAt ?? Infinity) <= firstSeen,
    );
    const verdict = judgeStray({ state: info.state, knownForMs, createPending, marker }, graceMs);
    return { info, verdict, sessionId };
  }

  async #marker(
    info: SandboxInfo,
    call: Call,
  ): Promise<{ readonly sessionId: string | undefined; readonly marker: StrayMarker }> {
    const { deps } = this.#options;
    try {
      const marker = await ownMarker(deps.remote, info, call);
      if (marker === undefined) return { sessionId: undefined, marker: { kind: 'none' } };
      const { acceptorId, outpostId } = deps.identity;
      if (marker.acceptorId !== acceptorId || marker.outpostId !== outpostId) {
        return { sessionId: marker.sessionId, marker: { kind: 'foreign' } };
      }
      const record = deps.index.get(deps.identity.nameOf(marker.sessionId));
      return { sessionId: marker.sessionId, marker: { kind: 'ours', record } };
    } catch (error) {
      deps.log.warn('marker not readable; sandbox left alone', {
        sandboxId: info.id,
        error: describeError(error),
      });
      return UNREAD;
    }
  }

  /** A sandbox of ours that our records forgot: from here on the planner decides about its session. */
  #adopt({ info, sessionId }: Judged): void {
    const { deps, onAdopted } = this.#options;
    if (sessionId === undefined) return;
    const name = deps.identity.nameOf(sessionId);
    if (deps.index.get(name) !== undefined) return;
    const kind = deps.queue.sighting(sessionId).entry?.kind ?? 'unknown';
    const now = deps.clock.now();
    // Not waited for on disk: until it is there, the next life finds the sandbox again in the same way.
    const found = { sandboxId: info.id, ...lifetimeOf(deps, info) };
    deps.index.put(name, { ...newRecord({ sessionId, kind }, 'serving', 1, now), ...found });
    deps.recorder.janitor('adopted');
    deps.log.warn('sandbox without a record adopted', {
      session: sessionId,
      sandbox: name,
      sandboxId: info.id,
    });
    onAdopted(sessionId);
  }

  async #destroy(judged: readonly Judged[], total: number, call: Call): Promise<void> {
    const { deps } = this.#options;
    const condemned = judged.filter((one) => one.verdict.do === 'destroy');
    const allowed = sweepAllowance(condemned.length, total);
    if (allowed === 0 && condemned.length > 0) {
      deps.recorder.janitor('alarm');
      deps.log.error('sweep stopped: it would destroy most sandboxes', {
        condemned: condemned.length,
        total,
      });
      return;
    }
    for (const { info, verdict, sessionId } of condemned.slice(0, allowed)) {
      if (verdict.do !== 'destroy') continue;
      const about = { sandboxId: info.id, session: sessionId, why: verdict.why };
      try {
        await deps.provider.destroy(info.id, call);
        deps.recorder.janitor('destroyed');
        deps.log.warn('stray sandbox destroyed', about);
      } catch (error) {
        // One that cannot be destroyed keeps neither the others nor admission waiting.
        if (call.signal.aborted) throw error;
        deps.log.warn('stray sandbox not destroyed', { ...about, error: describeError(error) });
      }
    }
  }
}

const UNREAD: { readonly sessionId: string | undefined; readonly marker: StrayMarker } = {
  sessionId: undefined,
  marker: { kind: 'unread' },
};
