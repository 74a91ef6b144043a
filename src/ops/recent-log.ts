/**
 * The daemon's own latest log lines, for `dvo logs --daemon`: `GET /api/log`, one server-sent event per line. In memory
 * only; the whole log is where standard output goes.
 */
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import type { Route } from './server.ts';

/** `at`: milliseconds since the epoch. `line`: as it was written, without its end. */
export const LOG_LINE = z.object({ at: z.number(), line: z.string() });
export type LogLine = z.infer<typeof LOG_LINE>;

/** A day of a calm daemon, some minutes of a troubled one. */
const MOST_LINES = 5_000;
const MOST_CHARACTERS = 2 * 1024 * 1024;

export class RecentLog {
  readonly #clock: Clock;
  readonly #lines: LogLine[] = [];
  #characters = 0;
  /** How many lines came before the first one that is still there. */
  #dropped = 0;
  #more = Promise.withResolvers<void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes finished text, line ends included. */
  add(text: string): void {
    for (const line of text.split('\n')) {
      if (line === '') continue;
      this.#lines.push({ at: this.#clock.now(), line });
      this.#characters += line.length;
    }
    this.#trim();
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }

  /** `?tail=` lines at most, from `?since=` (milliseconds since the epoch) on; with `?follow` until the asker leaves. */
  get route(): Route {
    return {
      method: 'GET',
      path: '/api/log',
      access: 'control',
      handle: async (request, response) => {
        const asked = new URLSearchParams(request.url?.split('?', 2)[1]);
        response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
        // A stream that has nothing to say yet has begun all the same.
        response.flushHeaders();
        const first = this.#firstOf(Number(asked.get('tail') ?? MOST_LINES), Number(asked.get('since') ?? 0));
        await this.#tell(response, first, asked.has('follow'));
        response.end();
      },
    };
  }

  /** Counted from the first line that there ever was. */
  #firstOf(tail: number, since: number): number {
    const recent = this.#lines.findIndex(({ at }) => at >= since);
    const start = recent === -1 ? this.#lines.length : recent;
    return this.#dropped + Math.max(start, this.#lines.length - tail);
  }

  /** What falls out of the ring before a slow reader comes to it, is lost to that reader. */
  async #tell(response: ServerResponse, first: number, isFollowed: boolean): Promise<void> {
    const closed = new Promise<void>((resolve) => response.once('close', resolve));
    let next = first;
    while (!response.destroyed) {
      const start = Math.max(0, next - this.#dropped);
      for (const line of this.#lines.slice(start)) response.write(`data: ${JSON.stringify(line)}\n\n`);
      next = this.#dropped + this.#lines.length;
      const more = this.#more.promise;
      if (response.writableNeedDrain) await Promise.race([drained(response), closed]);
      else if (!isFollowed) return;
      else await Promise.race([more, closed]);
    }
  }

  #trim(): void {
    let excess = 0;
    while (this.#lines.length - excess > MOST_LINES || this.#characters > MOST_CHARACTERS) {
      this.#characters -= this.#lines[excess]?.line.length ?? 0;
      excess += 1;
    }
    this.#lines.splice(0, excess);
    this.#dropped += excess;
  }
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.once('drain', resolve));
}
