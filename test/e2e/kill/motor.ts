/**
 * The motor with points at every boundary of every step: before its first effect, during each, and after each. The
 * first is before the intent, the one after a commit is after the intent (or the result), the one after a call is after
 * the effect. A point is written down when it is passed; at the one that was ordered, the process is killed.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { appendFileSync } from 'node:fs';
import { Motor as RealMotor, type MotorParts } from '../../../src/orchestrator/motor.ts';
import { nextStep, type Planner } from '../../../src/session/plan.ts';
import { take, traceFile } from './order.ts';

const FOLDER = process.env['KILL_FOLDER'] ?? '';

/** The step that is being run, found again from any call that it makes. */
interface Running {
  readonly sessionId: string;
  readonly step: string;
  readonly calls: Map<string, number>;
}

const running = new AsyncLocalStorage<Running>();

/** How far into a call "during" is, in milliseconds; about the middle of it. */
const MIDDLE: Readonly<Record<string, number>> = {
  prepare: 40,
  launch: 30,
  stop: 30,
  snapshot: 4,
  destroy: 4,
};

export class Motor extends RealMotor {
  constructor(parts: MotorParts) {
    super(
      {
        ...parts,
        rules: { ...parts.rules, ...take(FOLDER).rules },
        index: watched(parts.index, ['commit']),
        api: watched(parts.api, ['claim', 'release']),
        provider: watched(parts.provider, ['create', 'destroy', 'snapshot', 'deleteSnapshot']),
        remote: watched(parts.remote, ['prepare', 'launch', 'stop']),
      },
      plan,
    );
  }
}

const plan: Planner = (view, rules) => {
  const { endsSoon, archiveSince } = take(FOLDER);
  const { record } = view;
  const seen =
    record?.sandboxId !== undefined && record.sandboxId === endsSoon
      ? { ...view, record: { ...record, lifetimeEndsAt: view.now } }
      : view;
  const due = archiveSince !== undefined && (record?.archive?.takenAt ?? 0) < archiveSince;
  const decision = nextStep(seen, due ? { ...rules, checkpointEveryMs: 1 } : rules);
  const sessionId = record?.sessionId ?? view.sighting.entry?.sessionId;
  if (decision.kind === 'step' && sessionId !== undefined) {
    running.enterWith({ sessionId, step: decision.step.do, calls: new Map() });
  }
  return decision;
};

/** `port` with points around its methods `names`. */
function watched<Port extends object>(port: Port, names: readonly (keyof Port & string)[]): Port {
  const isWatched = (name: string | symbol): name is keyof Port & string => names.some((one) => one === name);
  return new Proxy(port, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (!isWatched(name)) return value.bind(target);
      return (...args: readonly unknown[]) => passing(name, () => value.apply(target, args));
    },
  });
}

async function passing(name: string, call: () => Promise<unknown>): Promise<unknown> {
  const step = running.getStore();
  if (step === undefined) return await call();
  const nth = (step.calls.get(name) ?? 0) + 1;
  // Not named by the call: whether a claim must still be given back, say, is a race with the queue.
  if (step.calls.size === 0) pass(step, 'begin');
  step.calls.set(name, nth);
  const what = nth === 1 ? name : `${name} ${nth}`;
  const work = call();
  if (isOrdered(step, `during ${what}`)) {
    await Promise.race([work, new Promise((resolve) => setTimeout(resolve, MIDDLE[name] ?? 2))]);
  }
  pass(step, `during ${what}`);
  const result = await work;
  pass(step, `after ${what}`);
  return result;
}

function pass(step: Running, place: string): void {
  appendFileSync(
    traceFile(FOLDER),
    `${JSON.stringify({ sessionId: step.sessionId, point: pointOf(step, place) })}\n`,
  );
  if (isOrdered(step, place)) process.kill(process.pid, 'SIGKILL');
}

function isOrdered(step: Running, place: string): boolean {
  const { kill } = take(FOLDER);
  return kill?.sessionId === step.sessionId && kill.point === pointOf(step, place);
}

function pointOf(step: Running, place: string): string {
  return `${step.step}: ${place}`;
}
