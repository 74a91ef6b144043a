/** How outcomes look: lines for people, or one JSON document. */
import { paint, type Terminal } from '../terminal.ts';
import type { Outcome } from './check.ts';

const MARKS = { pass: '✔', fail: '✖', skip: '–' } as const;
const COLORS = { pass: 32, fail: 31, skip: 90 } as const;

export function outcomeText(outcome: Outcome, color: Terminal['color']): string {
  const { finding, title, tookMs } = outcome;
  const mark = paint(color, COLORS[finding.state], MARKS[finding.state]);
  const head = (detail: string): string => `${mark} ${title}${paint(color, 90, `  ${detail}`)}\n`;
  switch (finding.state) {
    case 'pass':
      return head(`${finding.detail}  (${duration(tookMs)})`);
    case 'skip':
      return head(finding.why);
    case 'fail': {
      const cause = finding.cause.replaceAll('\n', '\n    ');
      return `${head(`(${duration(tookMs)})`)}    ${cause}\n    ${paint(color, 1, 'Do:')} ${finding.fix}\n`;
    }
  }
}

export function summary(outcomes: readonly Outcome[]): string {
  const count = (state: Outcome['finding']['state']): number =>
    outcomes.filter(({ finding }) => finding.state === state).length;
  const [failed, skipped] = [count('fail'), count('skip')];
  const rest = skipped === 0 ? '' : `, ${skipped} not run`;
  if (allWell(outcomes)) return `\nAll is well: ${count('pass')} checks passed${rest}.\n`;
  return failed === 0
    ? `\nNothing failed, but not all that was asked for was run: ${count('pass')} passed${rest}.\n`
    : `\n${failed === 1 ? 'One check' : `${failed} checks`} failed, ${count('pass')} passed${rest}.\n`;
}

export function jsonReport(outcomes: readonly Outcome[]): string {
  const checks = outcomes.map(({ id, title, tookMs, finding }) => ({ id, title, tookMs, ...finding }));
  return `${JSON.stringify({ ok: allWell(outcomes), checks }, undefined, 2)}\n`;
}

export function allWell(outcomes: readonly Outcome[]): boolean {
  return outcomes.every(({ asked, finding: { state } }) => state === 'pass' || (state === 'skip' && !asked));
}

function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
