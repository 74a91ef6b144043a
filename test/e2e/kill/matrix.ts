/**
 * Every point × every flow. A flow is first played without a kill, to learn which points it passes, so that a step
 * that changes cannot slip out of the matrix; then once per point, with a session of its own, killed there and started
 * again.
 */
import { Stage } from '../../support/stage.ts';
import type { Flow } from './flows.ts';
import { Scene } from './scene.ts';

export interface Row {
  readonly flow: string;
  /** The points at which the daemon was killed. */
  readonly points: readonly string[];
  /** Empty: all is well. */
  readonly failures: readonly string[];
  readonly seconds: number;
}

/** Tries to meet a point that a flow does not pass each time: how often a session is looked at is up to the clock. */
const TRIES = 3;
const FIRST = 'devin-first';
const A_MOMENT_MS = 1_000;

/** Plays the flows, two at a time. */
export async function playFlows(
  flows: readonly Flow[],
  choose: (points: readonly string[]) => readonly string[],
  onRow: (row: Row) => void,
): Promise<void> {
  const waiting = [...flows];
  const play = async (): Promise<void> => {
    for (let flow = waiting.shift(); flow !== undefined; flow = waiting.shift())
      onRow(await playFlow(flow, choose));
  };
  await Promise.all([play(), play()]);
}

/** @param choose which of the flow's points are tried */
async function playFlow(flow: Flow, choose: (points: readonly string[]) => readonly string[]): Promise<Row> {
  const failures: string[] = [];
  const startedAt = performance.now();
  await using elder = flow.servedBefore === true ? await Stage.open() : undefined;
  await using scene = await Scene.open(
    { ...flow.stage, ...(elder === undefined ? {} : { emulator: elder.emulator }) },
    elder,
  );
  let points: readonly string[] = [];
  let at = 'no point';
  try {
    await begin(scene, elder, [FIRST]);
    points = choose(await learn(flow, scene, FIRST));
    await scene.stage.daemon.end('SIGKILL');
    await begin(
      scene,
      elder,
      points.map((_, number) => `devin-${number}-0`),
    );
    for (const [number, point] of points.entries()) {
      at = point;
      await killAt(flow, scene, `devin-${number}`, point);
    }
    at = 'no point';
    failures.push(...(await scene.leaks()));
  } catch (error) {
    // What is broken now would only repeat itself at every further point.
    failures.push(`killed at "${at}": ${String(error)}\n${await scene.lastWords()}`);
  }
  return { flow: flow.name, points, failures, seconds: (performance.now() - startedAt) / 1_000 };
}

/** Starts the daemon; before it, the one that has served the sessions so far and is dead by now. */
async function begin(scene: Scene, elder: Stage | undefined, ids: readonly string[]): Promise<void> {
  if (elder !== undefined) {
    await elder.start({ MAX_CONCURRENT_SESSIONS: '1000' });
    for (const sessionId of ids) elder.emulator.enqueue({ sessionId });
    for (const sessionId of ids) {
      await elder.connected(sessionId);
      await scene.write(sessionId);
    }
    await elder.daemon.end('SIGKILL');
  }
  await scene.start();
}

async function learn(flow: Flow, scene: Scene, sessionId: string): Promise<readonly string[]> {
  await flow.setUp(scene, sessionId);
  const before = await scene.passings(sessionId);
  await flow.drive(scene, sessionId);
  if (flow.stops === true) await scene.stage.daemon.exited();
  else await flow.reach(scene, sessionId);
  const passed = (await scene.passings(sessionId)).slice(before.length);
  if (flow.stops === true) await scene.start();
  await flow.reach(scene, sessionId);
  await flow.prove?.(scene, sessionId);
  await scene.orderNothing();
  await scene.end(sessionId);
  const counts = (point: string): boolean => flow.steps?.some((step) => point.startsWith(`${step}:`)) ?? true;
  const points = [...new Set(passed)].filter(counts);
  if (points.length === 0) throw new Error(`${flow.name} passes no point`);
  return points;
}

async function killAt(flow: Flow, scene: Scene, id: string, point: string): Promise<void> {
  const tries = flow.servedBefore === true ? 1 : TRIES;
  for (let again = 0; again < tries; again += 1) {
    const sessionId = `${id}-${again}`;
    await flow.setUp(scene, sessionId);
    await scene.killAt(sessionId, point);
    await flow.drive(scene, sessionId);
    const killed = await dies(flow, scene, sessionId);
    await scene.killNowhere();
    if (killed || flow.stops === true) await scene.start();
    await flow.reach(scene, sessionId);
    await flow.prove?.(scene, sessionId);
    await scene.orderNothing();
    await scene.end(sessionId);
    if (killed) return;
  }
  throw new Error('the point was never passed');
}

/** False: the flow has come to its end without passing the point. */
async function dies(flow: Flow, scene: Scene, sessionId: string): Promise<boolean> {
  const killed = scene.stage.daemon.exited().then((code) => code === null);
  if (flow.stops === true) return await killed;
  const reached = flow.reach(scene, sessionId).then(
    // What can be seen of the last effect is there a moment before its point is passed.
    () => new Promise<boolean>((resolve) => setTimeout(() => resolve(false), A_MOMENT_MS)),
    () => new Promise<boolean>(() => undefined),
  );
  return await Promise.race([killed, reached]);
}
