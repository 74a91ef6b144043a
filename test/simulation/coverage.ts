/** Which cells of the state table were reached, and which steps were done. */
import { wishOf } from '../../src/session/wish.ts';
import type { View } from '../../src/session/plan.ts';
import type { Rules } from '../../src/session/rules.ts';
import type { Decision } from '../../src/session/decision.ts';

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

  add(other: Coverage): void {
    for (const [cell, times] of other.cells) count(this.cells, cell, times);
    for (const [step, times] of other.steps) count(this.steps, step, times);
  }
}

function count(counts: Map<string, number>, key: string, times = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + times);
}
