/**
 * A daemon's line to the outside. Every call of every port goes through here: it takes time, may go wrong, and is one
 * of the moments at which the daemon may die. What a call does, it does in one moment, in the world's own time.
 */
import { withDeadline, type Call } from '../../src/lib/deadline.ts';
import { DvoError } from '../../src/lib/errors.ts';
import type { Clock } from '../../src/lib/clock.ts';
import type { CallFate, Faults, Reach } from './faults.ts';
import { never, whileAlive, type Life, type Scheduler } from './virtual-clock.ts';

export interface LineOptions {
  readonly daemon: string;
  readonly life: Life;
  readonly clock: Clock;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  /** The daemon dies now. */
  readonly die: (why: string) => void;
  readonly note: (text: string) => void;
}

export interface Exchange<T> {
  readonly operation: string;
  readonly subject: string;
  /** Between asking and happening, and again between happening and the answer: at most this long. */
  readonly latencyMs: readonly [number, number];
  /** What happens. A promise is a matter that the world itself takes its time over. */
  readonly effect: () => T | Promise<T>;
  readonly reach: Reach;
  /** What a failing call says. */
  readonly failure: (draw: CallFate['draw'], happened: 'happened' | 'not') => unknown;
}

export class Line {
  readonly #options: LineOptions;
  /** Trouble that lasts: the error of every call of a port, or silence. */
  weather: ((port: string) => (() => unknown) | 'silence' | undefined) | undefined;

  constructor(options: LineOptions) {
    this.#options = options;
  }

  get daemon(): string {
    return this.#options.daemon;
  }

  get life(): Life {
    return this.#options.life;
  }

  get clock(): Clock {
    return this.#options.clock;
  }

  async call<T>(call: Call, exchange: Exchange<T>): Promise<T> {
    const { life, clock } = this.#options;
    if (!life.alive) return await never();
    return await withDeadline(clock, exchange.operation, call, () =>
      whileAlive(life, this.#perform(exchange, call)),
    );
  }

  async #perform<T>(exchange: Exchange<T>, call: Call): Promise<T> {
    const { life, scheduler, faults, daemon, die } = this.#options;
    const { operation, subject, effect, failure } = exchange;
    const [low, high] = exchange.latencyMs;
    const { fate, death, draw } = faults.call(daemon, operation, subject, exchange.reach);
    if (fate !== 'ok' || death !== 'none') {
      this.#options.note(`${operation} ${subject}: ${fate}${death === 'none' ? '' : `, dies ${death}`}`);
    }
    if (death === 'before') {
      die(`before ${operation} ${subject}`);
      return await never();
    }
    const there = draw.between(low, high);
    const back = draw.between(low, high);
    if (death === 'during') {
      const arrives = draw.chance(0.5);
      scheduler.after(draw.between(0, there), () => die(`during ${operation} ${subject}`));
      if (!arrives) return await never();
    }
    const trouble = this.weather?.(operation.split('.')[0] ?? '');
    if (trouble === 'silence') return await never();
    await scheduler.pause(fate === 'slow' ? draw.between(2_000, Math.min(call.timeoutMs, 40_000)) : there);
    // What had not left the process dies with it.
    if (!life.alive && death === 'none' && draw.chance(0.3)) return await never();
    if (trouble !== undefined) throw trouble();
    if (fate === 'hang') return await never();
    if (fate === 'error') throw failure(draw, 'not');
    if (fate === 'late') await scheduler.pause(call.timeoutMs + draw.between(0, 60_000));
    if (fate === 'twice') scheduler.after(draw.between(1, 3_000), () => void quietly(effect));
    let answer: T;
    try {
      answer = await effect();
    } finally {
      if (death === 'after') die(`after ${operation} ${subject}`);
    }
    await scheduler.pause(back);
    if (fate === 'error-after') throw failure(draw, 'happened');
    if (fate === 'hang-after' || fate === 'late') return await never();
    return answer;
  }
}

/** A repeated request has nobody to answer to. */
async function quietly(effect: () => unknown): Promise<void> {
  try {
    await effect();
  } catch (error) {
    if (!(error instanceof DvoError)) throw error;
  }
}
