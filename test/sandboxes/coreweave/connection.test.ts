import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import { silentLogger } from '../../../src/lib/log.ts';
import { Redactor } from '../../../src/lib/secret.ts';
import { Connection } from '../../../src/sandboxes/coreweave/connection.ts';
import { MemoryPlatform } from '../../support/memory-sdk.ts';

const TASK = { what: 'work', operation: 'exec' } as const;
const { signal } = new AbortController();
const LONG = { timeoutMs: 300_000, signal };
const never = new Promise<never>(() => undefined);

/** Time that moves when the test says so. */
class HandClock implements Clock {
  #now = 0;
  readonly #sleepers = new Map<PromiseWithResolvers<void>, number>();

  now(): number {
    return this.#now;
  }

  async sleep(ms: number, ends?: AbortSignal): Promise<void> {
    const sleeper = Promise.withResolvers<void>();
    this.#sleepers.set(sleeper, this.#now + ms);
    const end = (): void => sleeper.reject(ends?.reason);
    if (ends?.aborted === true) end();
    ends?.addEventListener('abort', end, { once: true });
    await sleeper.promise.finally(() => this.#sleepers.delete(sleeper));
  }

  async pass(ms: number): Promise<void> {
    this.#now += ms;
    for (const [sleeper, due] of this.#sleepers) if (due <= this.#now) sleeper.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('the calls to the platform', () => {
  let platform: MemoryPlatform;
  let rebuilt: number;

  const open = (clock: Clock): Connection =>
    new Connection({
      connect: async () => platform.client(),
      clock,
      log: silentLogger,
      redactor: new Redactor(),
      observer: { call: () => undefined, rebuilt: () => (rebuilt += 1) },
    });

  beforeEach(async () => {
    platform = await MemoryPlatform.open();
    rebuilt = 0;
  });

  afterEach(async () => {
    await platform.close();
  });

  it('P5: long ones have their bound, keep no short one waiting, and all have their turn', async () => {
    const connection = open(systemClock);
    const held = Promise.withResolvers<string>();
    let atWork = 0;
    const long = Array.from({ length: 100 }, () =>
      connection.call(TASK, LONG, async () => {
        atWork += 1;
        return await held.promise;
      }),
    );
    const short = Array.from({ length: 100 }, () =>
      connection.call(TASK, { timeoutMs: 5_000, signal }, async () => 'short'),
    );
    expect(new Set(await Promise.all(short))).toEqual(new Set(['short']));
    expect(atWork).toBe(48);
    held.resolve('long');
    expect(new Set(await Promise.all(long))).toEqual(new Set(['long']));
  });

  it('P5: only a call that was sent in time says by its deadline that calls are not answered', async () => {
    const clock = new HandClock();
    const connection = open(clock);
    const held = Promise.withResolvers<void>();
    const sent: string[] = [];
    const three = async (name: string, timeoutMs: number): Promise<readonly unknown[]> => {
      const work = async (): Promise<never> => {
        sent.push(name);
        return await never;
      };
      const calls = Array.from({ length: 3 }, () => connection.call(TASK, { timeoutMs, signal }, work));
      return (await Promise.allSettled(calls)).map((one) => one.status === 'rejected' && one.reason.code);
    };
    const late = Array(3).fill('deadline');
    const first = Array.from({ length: 64 }, () =>
      connection.call(TASK, { timeoutMs: 60_000, signal }, () => held.promise),
    );
    const unsent = three('never', 20_000);
    const barely = three('at the last moment', 30_000);
    await clock.pass(20_000);
    expect(await unsent).toEqual(late);
    expect(rebuilt).toBe(0);
    await clock.pass(5_000);
    held.resolve();
    await Promise.all(first);
    await clock.pass(5_000);
    expect(await barely).toEqual(late);
    expect(rebuilt).toBe(0);
    const unanswered = three('at once', 30_000);
    await clock.pass(30_000);
    expect(await unanswered).toEqual(late);
    expect(rebuilt).toBe(1);
    expect(new Set(sent)).toEqual(new Set(['at the last moment', 'at once']));
  });
});
