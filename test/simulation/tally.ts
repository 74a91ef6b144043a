/** What many runs came to. */
import { Coverage } from './coverage.ts';
import type { Outcome } from './run.ts';

export class Tally {
  readonly #startedAt = Date.now();
  readonly coverage = new Coverage();
  readonly faults = new Map<string, number>();
  readonly failed: number[] = [];
  seeds = 0;
  events = 0;
  deaths = 0;
  disksLost = 0;
  disksTorn = 0;
  virtualMs = 0;

  add(seed: number, { world, violation, events }: Outcome): void {
    this.seeds += 1;
    this.events += events;
    this.deaths += world.deaths;
    this.disksLost += world.disksLost;
    this.disksTorn += world.disksTorn;
    this.virtualMs += world.scheduler.elapsed;
    this.coverage.add(world.coverage);
    for (const [kind, times] of world.faults.counts) {
      this.faults.set(kind, (this.faults.get(kind) ?? 0) + times);
    }
    if (violation !== undefined) this.failed.push(seed);
  }

  figures(): string {
    const minutes = (Date.now() - this.#startedAt) / 60_000;
    const hours = Math.round(this.virtualMs / 3_600_000);
    return [
      `${this.seeds} seeds in ${minutes.toFixed(1)} minutes (${Math.round(this.seeds / minutes)} a minute)`,
      `${this.events} events, ${hours} virtual hours, ${this.deaths} deaths, ${this.disksLost} disks lost, ${this.disksTorn} of them torn`,
    ].join('\n');
  }

  report(): string {
    const list = (counts: ReadonlyMap<string, number>): string =>
      [...counts]
        .sort(([left], [right]) => left.localeCompare(right))
        .map(([key, times]) => `  ${key}: ${times}`)
        .join('\n');
    return [
      this.figures(),
      `faults:\n${list(this.faults)}`,
      `steps:\n${list(this.coverage.steps)}`,
      `${this.coverage.cells.size} cells of the state table:\n${list(this.coverage.cells)}`,
      `rows of the state table not reached: ${this.coverage.missed().join('; ') || 'none'}`,
      this.failed.length === 0 ? 'no violation' : `${this.failed.length} failed: ${this.failed.join(', ')}`,
    ].join('\n');
  }
}
