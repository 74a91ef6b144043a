/**
 * Sandboxes and archives that must not outlive the check. What was made is found again by tag, not only by memory: a
 * create whose answer was lost made something too.
 */
import type { Clock } from '../../lib/clock.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import {
  isProviderError,
  ProviderError,
  type SandboxInfo,
  type SandboxProvider,
} from '../../sandboxes/provider.ts';

export interface ThrowAwayOptions {
  readonly provider: () => SandboxProvider;
  readonly clock: Clock;
  readonly tag: string;
}

const ASK_MS = 30_000;
const CREATE_MS = 60_000;
/** Pulling a large image on a fresh node. */
const START_MS = 300_000;
const LOOK_EVERY_MS = 500;
/** How long the platform may take to end what it was told to end. */
const ENDING_MS = 120_000;

export class ThrowAway {
  readonly tag: string;
  readonly #options: ThrowAwayOptions;
  /** Every sandbox that is known to have been made: its archives are listed by it. */
  readonly #made = new Set<string>();
  /** A create was asked for and not answered: it may show up late. */
  #unanswered = 0;

  constructor(options: ThrowAwayOptions) {
    this.#options = options;
    this.tag = options.tag;
  }

  /** A running sandbox. @throws ProviderError, `deadline`, `aborted` */
  async make(restoreFrom: string | undefined, signal: AbortSignal): Promise<SandboxInfo> {
    const { clock } = this.#options;
    const provider = this.#options.provider();
    const from = restoreFrom === undefined ? {} : { restoreFrom };
    this.#unanswered += 1;
    let info = await provider.create({ tags: [this.tag], ...from }, { timeoutMs: CREATE_MS, signal });
    this.#unanswered -= 1;
    this.#made.add(info.id);
    const until = clock.now() + START_MS;
    while (info.state === 'starting') {
      if (clock.now() > until)
        throw new DvoError('deadline', `the sandbox did not start within ${START_MS / 60_000} minutes`);
      await clock.sleep(LOOK_EVERY_MS, signal);
      info = await provider.get(info.id, { timeoutMs: ASK_MS, signal });
    }
    if (info.state !== 'running')
      throw new ProviderError(
        'gone',
        `the sandbox ended at once${info.reason === undefined ? '' : `: ${info.reason}`}`,
      );
    return info;
  }

  async end(id: string, signal: AbortSignal): Promise<void> {
    await this.#options.provider().destroy(id, { timeoutMs: ASK_MS, signal });
  }

  /** Removes everything that was made; answers what could not be, in words. Not to be stopped: it is short. */
  async clear(): Promise<readonly string[]> {
    const { clock } = this.#options;
    const signal = new AbortController().signal;
    const until = clock.now() + ENDING_MS;
    if (this.#unanswered > 0) await clock.sleep(this.#options.provider().capabilities.listLagMs, signal);
    for (;;) {
      const left = await this.#pass(signal);
      if (left.length === 0 || clock.now() > until) return left;
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
  }

  /** One round over everything: archives first, because they are found by their sandbox. */
  async #pass(signal: AbortSignal): Promise<readonly string[]> {
    const provider = this.#options.provider();
    const call = { timeoutMs: ASK_MS, signal };
    const left: string[] = [];
    const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        // Without archives in this account there are none to remove.
        if (!isProviderError(error, 'unsupported')) left.push(`${what}: ${describeError(error)}`);
      }
    };
    await attempt('the list of sandboxes', async () => {
      for (const { id } of await provider.list({ tags: [this.tag], include: 'active' }, call)) {
        this.#made.add(id);
        left.push(`sandbox ${id}`);
        await attempt(`sandbox ${id}`, () => provider.destroy(id, call));
      }
    });
    for (const sandboxId of this.#made) {
      await attempt(`archives of ${sandboxId}`, async () => {
        for (const { id, state } of await provider.snapshots(sandboxId, call)) {
          // Accepted: it goes by itself.
          if (state === 'deleting') continue;
          left.push(`archive ${id}`);
          await attempt(`archive ${id}`, () => provider.deleteSnapshot(id, call));
        }
      });
    }
    return left;
  }
}
