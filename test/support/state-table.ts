/** The state table of docs/lifecycle.md, as rows. */
import { readFileSync } from 'node:fs';

export interface TableRow {
  /** stage, wish, sandbox, remote; `*` matches anything. */
  readonly cells: readonly string[];
  readonly next: string;
}

const page = readFileSync(new URL('../../docs/lifecycle.md', import.meta.url), 'utf8');
const body = page.slice(page.indexOf('<!-- state-table -->'), page.indexOf('<!-- /state-table -->'));

export const STATE_TABLE: readonly TableRow[] = body
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| ---') && !line.startsWith('| stage'))
  .map((line) => {
    const cells = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    return { cells: cells.slice(0, 4), next: cells[4] ?? '' };
  });

/** The first row that matches: stage, wish, sandbox, remote. */
export function rowOf(values: readonly string[]): TableRow | undefined {
  return STATE_TABLE.find(({ cells }) =>
    values.every((value, at) => cells[at] === '*' || cells[at] === value),
  );
}
