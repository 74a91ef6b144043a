import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { EXIT } from '../../src/cli/terminal.ts';
import { readiness } from '../../src/ops/health.ts';
import { REFUSED } from '../../src/orchestrator/advice.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const page = read('docs/operations.md');
/** Everything that stands in code in the first cell of a row. */
const entries = new Set(
  page.split('\n').flatMap((line) => {
    const [, first = ''] = /^\| (.+?) \|/.exec(line) ?? [];
    return [...first.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? '');
  }),
);
const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => [file, read(`src/${file}`)] as const);

/** The members of a union of strings. */
function union(file: string, name: string): readonly string[] {
  // A comment may hold a semicolon; the union ends with the one that follows its last member.
  const [, body = ''] = new RegExp(`type ${name} =\\n((?: +(?:\\||//)[^\\n]*\\n)+)`).exec(read(file)) ?? [];
  return [...body.matchAll(/\| '([\w-]+)'/g)].map(([, one]) => one ?? '');
}
const missing = (names: readonly string[]): readonly string[] => {
  expect(names.length).toBeGreaterThan(0);
  return names.filter((name) => !entries.has(name));
};

describe('docs/operations.md has an entry for', () => {
  it.each([
    ['src/orchestrator/admission-gate.ts', 'Pause', 6],
    ['src/session/session.ts', 'Ending', 6],
    ['src/lib/errors.ts', 'ErrorCode', 11],
    ['src/sandboxes/provider.ts', 'ProviderErrorKind', 9],
  ])('every member of %s: %s', (file, name, atLeast) => {
    const members = union(file, name);
    expect(members.length).toBeGreaterThanOrEqual(atLeast);
    expect(missing(members)).toEqual([]);
  });

  it('every reason to wait', () => {
    const own = [...read('src/orchestrator/waiting.ts').matchAll(/reason: '([\w-]+)'/g)].map(
      ([, one]) => one ?? '',
    );
    expect(missing([...Object.keys(REFUSED), ...own])).toEqual([]);
  });

  it('every step with advice of its own', () => {
    const [, body = ''] = /const FAILED[^{]+\{(.+?)\n\};/s.exec(read('src/orchestrator/advice.ts')) ?? [];
    expect(missing([...body.matchAll(/^  '?([\w-]+)'?:/gm)].map(([, one]) => one ?? ''))).toEqual([]);
  });

  it('every reason not to be ready', () => {
    const pauses = new Map(union('src/orchestrator/admission-gate.ts', 'Pause').map((one) => [one, 'x']));
    const { reasons } = readiness({
      synced: false,
      problem: 'x',
      unauthorized: true,
      pauses,
      indexTrouble: 'x',
      keptForWant: 1,
    });
    expect(reasons.length).toBeGreaterThanOrEqual(8);
    const unknown = reasons.filter((reason) => ![...entries].some((entry) => reason.startsWith(entry)));
    expect(unknown).toEqual([]);
    expect(page).toContain('loop has not come round');
  });

  it('every warning and error of the log', () => {
    const lines = sources.flatMap(([, text]) =>
      [...text.matchAll(/\blog\??\s*\.(?:warn|error)\(\s*'([^']+)'/g)].map(([, line]) => line ?? ''),
    );
    expect(lines.length).toBeGreaterThan(40);
    expect(missing(lines)).toEqual([]);
  });

  it('every check of the doctor, and every exit code', () => {
    const ids = sources
      .filter(([file]) => file.startsWith('cli/doctor/'))
      .flatMap(([, text]) => [...text.matchAll(/\bid: '(\w+)'/g)].map(([, id]) => id ?? ''));
    expect(missing(ids)).toEqual([]);
    for (const code of Object.values(EXIT)) expect(page).toMatch(new RegExp(`^\\| ${code} \\|`, 'm'));
  });

  it('nothing that the log does not say any more', () => {
    const [, table = ''] = /## Lines of the log[^]+?\n\n([^]+?)\n\n/.exec(page) ?? [];
    expect(table.split('\n').length).toBeGreaterThan(40);
    const all = sources.map(([, text]) => text).join('\n');
    const gone = [...table.matchAll(/^\| `([^`]+)`/gm)]
      .map(([, line]) => line ?? '')
      .filter((line) => !all.includes(`'${line}'`));
    expect(gone).toEqual([]);
  });
});
