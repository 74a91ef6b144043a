import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createMetrics } from '../../src/ops/metrics.ts';

const text = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`../../docs/monitoring/${file}`, import.meta.url)), 'utf8');

/** Labels that Prometheus adds, and those of histograms, which have no values at the start. */
const FOREIGN = new Set(['instance', 'job', 'le']);

interface Exported {
  /** Series name to label to values. */
  readonly series: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;
}

async function exported(): Promise<Exported> {
  const series = new Map<string, Map<string, Set<string>>>();
  for (const line of (await createMetrics().text()).split('\n')) {
    const [, name, labels = ''] = /^(dvo_\w+)(?:\{([^}]*)\})? /.exec(line) ?? [];
    if (name === undefined) continue;
    const known = series.get(name) ?? new Map<string, Set<string>>();
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="([^"]*)"/g))
      known.set(label, (known.get(label) ?? new Set()).add(value));
    series.set(name, known);
  }
  return { series };
}

/** What is wrong with an expression: series, labels or values that the daemon does not export. */
function wrongIn(expr: string, { series }: Exported): readonly string[] {
  const wrong: string[] = [];
  const used: string[] = [];
  for (const [, name = '', matchers = ''] of expr.matchAll(/\b(dvo_\w+)(?:\{([^}]*)\})?/g)) {
    used.push(name);
    const labels = series.get(name);
    if (labels === undefined) {
      wrong.push(`no series ${name}`);
      continue;
    }
    for (const [, label = '', operator = '', value = ''] of matchers.matchAll(/(\w+)(=~|!=|=)"([^"]*)"/g)) {
      if (FOREIGN.has(label)) continue;
      const values = labels.get(label);
      // HTTP statuses show up as they come.
      if (label === 'code' && values !== undefined) continue;
      const wanted = operator === '=~' ? value.split('|') : [value];
      for (const one of wanted)
        if (![...(values ?? [])].some((known) => new RegExp(`^(?:${one})$`).test(known)))
          wrong.push(`${name} has no ${label}="${one}"`);
    }
  }
  if (used.length === 0) wrong.push(`no series of ours in ${expr}`);
  for (const [, names = ''] of expr.matchAll(/by \(([^)]*)\)/g))
    for (const label of names.split(/,\s*/))
      if (!FOREIGN.has(label) && !used.some((name) => series.get(name)?.has(label) === true))
        wrong.push(`nothing has the label ${label}`);
  return wrong;
}

describe('the alert rules', () => {
  const rules = parse(text('alerts.yaml')).groups.flatMap((group: { rules: unknown[] }) => group.rules);

  it('ask only for what the daemon exports', async () => {
    const metrics = await exported();
    expect(rules.length).toBeGreaterThan(10);
    for (const { alert, expr } of rules) expect([alert, ...wrongIn(expr, metrics)]).toEqual([alert]);
  });

  it('have a name of their own, a severity, and say what to do', () => {
    expect(new Set(rules.map(({ alert }: { alert: string }) => alert)).size).toBe(rules.length);
    for (const { alert, labels, annotations } of rules) {
      expect(['page', 'ticket'], alert).toContain(labels.severity);
      expect(annotations.summary.length, alert).toBeGreaterThan(5);
      expect(annotations.description.length, alert).toBeGreaterThan(5);
    }
  });

  it('a name that is not exported would be noticed', async () => {
    const metrics = await exported();
    expect(wrongIn('rate(dvo_nothing_total[5m])', metrics)).toEqual(['no series dvo_nothing_total']);
    expect(wrongIn('dvo_sessions{stage="dancing"}', metrics)).toEqual([
      'dvo_sessions has no stage="dancing"',
    ]);
    expect(wrongIn('sum by (colour) (dvo_sessions)', metrics)).toEqual(['nothing has the label colour']);
  });
});

describe('the dashboard', () => {
  const { panels, templating } = JSON.parse(text('dashboard.json'));

  it('asks only for what the daemon exports', async () => {
    const metrics = await exported();
    for (const { title, targets } of panels) {
      for (const { expr } of targets) expect([title, ...wrongIn(expr, metrics)]).toEqual([title]);
    }
    expect(wrongIn(templating.list[1].query, metrics)).toEqual([]);
  });

  it('shows every series of ours', async () => {
    const shown = JSON.stringify(panels);
    const names = [...(await exported()).series.keys()]
      .map((name) => name.replace(/_(bucket|sum|count)$/, ''))
      .filter((name) => !shown.includes(name));
    expect([...new Set(names)].sort()).toEqual([
      // Small print, for those who look for it.
      'dvo_index_commit_seconds',
      'dvo_platform_clients_total',
      'dvo_queue_skipped_total',
      'dvo_trace_spans_total',
    ]);
  });

  it('no two panels have one place or one number', () => {
    const places = panels.map(({ gridPos }: { gridPos: unknown }) => JSON.stringify(gridPos));
    expect(new Set(places).size).toBe(panels.length);
    expect(new Set(panels.map(({ id }: { id: number }) => id)).size).toBe(panels.length);
  });
});
