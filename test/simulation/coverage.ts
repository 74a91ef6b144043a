/** Which cells of the state table were reached, and which steps were done. */
import { rowOf, STATE_TABLE } from '../support/state-table.ts';
import { wishOf } from '../../src/session/wish.ts';
import type { View } from '../../src/session/plan.ts';
import type { Rules } from '../../src/session/rules.ts';
import type { Decision } from '../../src/session/decision.ts';

/**
 * Rows that stand in the table for completeness: a stage that is entered with the sandbox running never sees it starting,
 * because a sandbox does not go back from running to starting.
 */
const UNREACHABLE: ReadonlySet<string> = new Set(['preparing held starting *', 'serving * starting *']);

export class Coverage {
  readonly cells = new Map<string, number>();
  readonly steps = new Map<string, number>();

  see(view: View, rules: Rules, decision: Decision): void {
    const wish = wishOf(view.sighting, view.facts.remote, rules);
    const cell = `${view.record?.stage ?? 'none'} ${wish} ${view.facts.sandbox} ${view.facts.remote}`;
    count(this.cells, cell);
    if (decision.kind === 'wait') return;
    const { step } = decision;
    count(this.steps, 'ending' in step ? `${step.do} (${step.ending})` : step.do);
  }

  /** Rows of the state table that no view has matched. */
  missed(): readonly string[] {
    const reached = new Set([...this.cells.keys()].map((cell) => rowOf(cell.split(' '))));
    return STATE_TABLE.filter((row) => !reached.has(row) && !UNREACHABLE.has(row.cells.join(' '))).map(
      ({ cells }) => cells.join(' | '),
    );
  }

  add(other: Coverage): void {
    for (const [cell, times] of other.cells) count(this.cells, cell, times);
    for (const [step, times] of other.steps) count(this.steps, step, times);
  }
}

function count(counts: Map<string, number>, key: string, times = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + times);
}
