import { describe, expect, it } from 'vitest';
import { FLOWS } from './kill/flows.ts';
import { playFlows, type Row } from './kill/matrix.ts';

describe('P3: kill -9 at every boundary of every step', () => {
  it('loses nothing, doubles nothing and leaves nothing, in whatever flow it falls', async () => {
    const seen = new Set<string>();
    // Between the boundaries, and each boundary in every flow: `npm run kill-matrix`.
    const once = (points: readonly string[]): readonly string[] =>
      points.filter((point) => {
        const wanted = !point.includes('during') && !seen.has(point);
        seen.add(point);
        return wanted;
      });
    const rows: Row[] = [];
    await playFlows(FLOWS, once, (row) => rows.push(row));
    expect(rows.flatMap(({ flow, failures }) => failures.map((failure) => `${flow}: ${failure}`))).toEqual(
      [],
    );
    const points = rows.reduce((sum, row) => sum + row.points.length, 0);
    console.log(`${rows.length} flows, killed at ${points} points`);
    // Far fewer would mean that the points are not met any more.
    expect(points).toBeGreaterThan(40);
  }, 900_000);
});
