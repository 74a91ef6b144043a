/** What goes wrong during a soak run: all of the emulator's faults, now and then, and cleared again. */
import type { Emulator } from '../../src/emulator/emulator.ts';
import type { Fault, Knobs, Route } from '../../src/emulator/settings.ts';

const pick = <T>(all: readonly T[]): T => all[Math.floor(Math.random() * all.length)] as T;

const ROUTES: readonly Route[] = ['list', 'watch', 'get', 'claim', 'release', 'latest', 'binary', 'checksum'];
const KINDS: readonly Omit<Fault, 'route' | 'count'>[] = [
  { kind: 'status', status: 500 },
  { kind: 'status', status: 503, headers: { 'retry-after': '1' } },
  { kind: 'status', status: 429, headers: { 'retry-after': '1' } },
  { kind: 'status', status: 403 },
  { kind: 'html', status: 200 },
  { kind: 'html', status: 502 },
  { kind: 'reset' },
  { kind: 'reset-after' },
  { kind: 'cut' },
  { kind: 'delay', ms: 300 },
  { kind: 'delay', ms: 1_500 },
];
/** A queue that is odd for a moment. */
const MOODS: readonly Partial<Knobs>[] = [
  { watchCopies: 3 },
  { watchSwaps: true },
  { watchHangsUp: true },
  { watchWithholds: true },
  { watchSilent: true },
  { names: 'camel', deadline: 'iso' },
  { deadline: 'milliseconds' },
  { deadline: 'absent' },
  { renewals: 'refuse' },
  { statusLagMs: 500 },
  { deadRows: true },
  { pageSize: 3 },
  { list: 'empty' },
  { list: 'first-page', pageSize: 2 },
  { checksum: 'html' },
  { binary: 'truncated' },
];

export class Weather {
  readonly counts: Record<string, number> = {};
  readonly #emulator: Emulator;
  readonly #fair: Knobs;

  constructor(emulator: Emulator) {
    this.#emulator = emulator;
    this.#fair = { ...emulator.knobs };
  }

  /** One fault, drawn anew each time. */
  strike(): void {
    const emulator = this.#emulator;
    const served = emulator.state().sessions.filter(({ remote }) => remote !== undefined);
    const victim = served.length === 0 ? undefined : pick(served).sessionId;
    const dice = Math.random();
    if (dice < 0.1 && victim !== undefined) this.#did('crash', () => emulator.crashRemote(victim, 3));
    else if (dice < 0.15 && victim !== undefined) this.#did('flash', () => emulator.flash(victim, 150));
    else if (dice < 0.2 && victim !== undefined) this.#did('expire', () => emulator.expire(victim));
    else if (dice < 0.22) this.#did('close watches', () => emulator.queue.closeWatches());
    else if (dice < 0.24) this.#did('bad event', () => emulator.queue.inject('data: {broken\n\n'));
    else if (dice < 0.27)
      this.#did('hang', () => emulator.fault({ kind: 'hang', route: pick(ROUTES), count: 1 }));
    else if (dice < 0.3) this.#did('drop remotes', () => emulator.gateway.drop());
    else if (dice < 0.5) {
      const mood = pick(MOODS);
      this.#did(`mood ${Object.keys(mood).join()}`, () => Object.assign(emulator.knobs, this.#fair, mood));
    } else {
      const fault = { ...pick(KINDS), route: pick(ROUTES), count: 1 };
      this.#did(fault.kind, () => emulator.fault(fault));
    }
  }

  clear(): void {
    this.#emulator.faults.clear();
    Object.assign(this.#emulator.knobs, this.#fair);
  }

  #did(name: string, act: () => void): void {
    act();
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
