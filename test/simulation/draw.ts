/** Randomness from a seed. A draw is named by what it is for, so that leaving out one fault does not move the others. */
import type { Random } from '../../src/lib/clock.ts';

/** A 32-bit number from texts and numbers (FNV-1a, then mixed). */
function seedFrom(...parts: readonly (string | number)[]): number {
  let hash = 0x811c9dc5;
  for (const part of parts) {
    const text = `${part}\n`;
    for (let at = 0; at < text.length; at += 1) {
      hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    }
  }
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** A stream of draws (mulberry32). */
export class Draw implements Random {
  #state: number;

  constructor(...parts: readonly (string | number)[]) {
    this.#state = seedFrom(...parts);
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  id(): string {
    const word = (): string =>
      Math.floor(this.next() * 4_294_967_296)
        .toString(16)
        .padStart(8, '0');
    return word() + word() + word() + word();
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number in [low, high]. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(list: readonly T[]): T {
    const place = Math.floor(this.next() * list.length);
    for (const picked of list.slice(place, place + 1)) return picked;
    throw new Error('nothing to pick from');
  }
}
