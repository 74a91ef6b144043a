import { describe, expect, it } from 'vitest';
import { systemClock, type Clock } from '../../src/lib/clock.ts';
import { Workqueue } from '../../src/orchestrator/workqueue.ts';

/** A clock whose sleepers are woken by hand. */
function handClock(): Clock & { tick(ms: number): Promise<void>; readonly sleeping: number } {
  let now = 0;
  const sleepers = new Set<{ readonly at: number; readonly wake: () => void }>();
  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const sleeper = { at: now + ms, wake: resolve };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', () => {
          sleepers.delete(sleeper);
          reject(signal.reason);
        });
      }),
    get sleeping() {
      return sleepers.size;
    },
    async tick(ms) {
      now += ms;
      for (const sleeper of sleepers) {
        if (sleeper.at > now) continue;
        sleepers.delete(sleeper);
        sleeper.wake();
      }
      await settle();
    },
  };
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

describe('the workqueue', () => {
  it('turns a hundred wake-ups during one run into exactly one more run', async () => {
    const first = gate();
    let runs = 0;
    const queue = new Workqueue({
      clock: systemClock,
      retryMs: 1,
      onError: () => expect.unreachable(),
      run: async () => {
        runs += 1;
        if (runs === 1) await first.opened;
        return undefined;
      },
    });
    queue.add('a');
    await settle();
    for (let wake = 0; wake < 100; wake += 1) queue.add('a');
    first.open();
    await settle();
    expect(runs).toBe(2);
    await queue.stop();
  });

  it('never runs one key twice at once, and different keys side by side', async () => {
    const hold = gate();
    const inside = new Map<string, number>();
    let most = 0;
    const queue = new Workqueue({
      clock: systemClock,
      retryMs: 1,
      onError: () => expect.unreachable(),
      run: async (key) => {
        inside.set(key, (inside.get(key) ?? 0) + 1);
        expect(inside.get(key)).toBe(1);
        most = Math.max(most, inside.size);
        await hold.opened;
        inside.delete(key);
        return undefined;
      },
    });
    for (const key of ['a', 'b', 'c', 'a', 'b']) queue.add(key);
    await settle();
    for (const key of ['a', 'b', 'c']) queue.add(key);
    hold.open();
    await queue.stop();
    expect(most).toBe(3);
  });

  it('looks again at the time that the run asked for, and forgets that time when woken earlier', async () => {
    const clock = handClock();
    const runs: number[] = [];
    const queue = new Workqueue({
      clock,
      retryMs: 1,
      onError: () => expect.unreachable(),
      run: async () => {
        runs.push(clock.now());
        return clock.now() + 1_000;
      },
    });
    queue.add('a');
    await settle();
    await clock.tick(999);
    expect(runs).toEqual([0]);
    await clock.tick(1);
    expect(runs).toEqual([0, 1_000]);
    await clock.tick(500);
    queue.add('a');
    await settle();
    expect(runs).toEqual([0, 1_000, 1_500]);
    expect(clock.sleeping).toBe(1);
    await clock.tick(500);
    expect(runs).toEqual([0, 1_000, 1_500]);
    await queue.stop();
    expect(clock.sleeping).toBe(0);
  });

  it('T7: reports a run that throws, and runs the key again', async () => {
    const clock = handClock();
    const errors: unknown[] = [];
    let runs = 0;
    const queue = new Workqueue({
      clock,
      retryMs: 5_000,
      onError: (key, error) => errors.push([key, error]),
      run: async () => {
        runs += 1;
        if (runs === 1) throw new Error('a bug');
        return undefined;
      },
    });
    queue.add('a');
    await settle();
    expect(errors).toHaveLength(1);
    await clock.tick(5_000);
    expect(runs).toBe(2);
    expect(queue.size).toBe(0);
    await queue.stop();
  });

  it('starts nothing after it was stopped, and waits for what runs', async () => {
    const hold = gate();
    let ended = false;
    const queue = new Workqueue({
      clock: systemClock,
      retryMs: 1,
      onError: () => expect.unreachable(),
      run: async () => {
        await hold.opened;
        ended = true;
        return undefined;
      },
    });
    queue.add('a');
    await settle();
    const stopped = queue.stop();
    queue.add('b');
    hold.open();
    await stopped;
    expect(ended).toBe(true);
    expect(queue.size).toBe(0);
  });
});
