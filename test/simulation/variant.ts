/** A daemon that is broken on purpose, from outside: its rules, planner or ports are changed. */
import type { Planner } from '../../src/session/plan.ts';
import type { Rules } from '../../src/session/rules.ts';
import type { MotorParts } from '../../src/orchestrator/motor.ts';

export interface Variant {
  readonly name: string;
  readonly rules?: (rules: Rules) => Rules;
  readonly plan?: (plan: Planner) => Planner;
  readonly parts?: (parts: MotorParts) => MotorParts;
}
