/** The ways through a session's life that a kill may fall into. */
import type { StageOptions } from '../../support/stage.ts';
import type { Scene } from './scene.ts';

export interface Flow {
  readonly name: string;
  readonly stage?: StageOptions;
  /** The steps whose points count for this flow; by default all that it passes. */
  readonly steps?: readonly string[];
  /** A second daemon serves the sessions first, and is killed for ever. */
  readonly servedBefore?: true;
  /** The daemon ends by itself in it. */
  readonly stops?: true;
  /** Brings the session to where the flow begins. */
  setUp(scene: Scene, sessionId: string): Promise<void>;
  /** Begins the flow; what the daemon does then is killed and taken up again. */
  drive(scene: Scene, sessionId: string): Promise<void> | void;
  /** What must be so in the end, whenever the daemon was killed. Only looks. */
  reach(scene: Scene, sessionId: string): Promise<void>;
  /** What proves it; the session is ended afterwards. */
  prove?(scene: Scene, sessionId: string): Promise<void>;
}

const nothing = async (): Promise<void> => undefined;

const served = (scene: Scene, sessionId: string): Promise<void> => scene.served(sessionId);
const asleep = (scene: Scene, sessionId: string): Promise<void> => scene.asleep(sessionId);
const gone = (scene: Scene, sessionId: string): Promise<void> => scene.gone(sessionId);
const hasFile = (scene: Scene, sessionId: string): Promise<void> => scene.remembers(sessionId);

async function fallAsleep(scene: Scene, sessionId: string): Promise<void> {
  await scene.serve(sessionId);
  scene.stage.emulator.sleep(sessionId);
  await scene.asleep(sessionId);
}

async function wakesWithFile(scene: Scene, sessionId: string): Promise<void> {
  scene.stage.emulator.wake(sessionId);
  await scene.served(sessionId);
  await scene.remembers(sessionId);
}

const start = (name: string, steps: readonly string[]): Flow => ({
  name,
  steps,
  setUp: nothing,
  drive: ({ stage }, sessionId) => stage.emulator.enqueue({ sessionId }),
  reach: served,
});

export const FLOWS: readonly Flow[] = [
  start('first claim', ['claim', 'ensure-sandbox']),
  start('prepare', ['prepare']),
  start('launch', ['launch']),
  {
    name: 'relaunch',
    setUp: (scene, sessionId) => scene.serve(sessionId),
    drive: (scene, sessionId) => scene.crash(sessionId),
    reach: (scene, sessionId) => scene.relaunched(sessionId),
    prove: hasFile,
  },
  {
    name: 'checkpoint',
    async setUp(scene, sessionId) {
      await scene.serve(sessionId);
      await scene.checkpoint();
      await scene.checkpointed(sessionId);
    },
    drive: (scene) => scene.checkpoint(),
    async reach(scene, sessionId) {
      await scene.checkpointed(sessionId);
      await scene.served(sessionId);
    },
    prove: hasFile,
  },
  {
    name: 'suspend',
    setUp: (scene, sessionId) => scene.serve(sessionId),
    drive: ({ stage }, sessionId) => stage.emulator.sleep(sessionId),
    reach: asleep,
    prove: wakesWithFile,
  },
  {
    name: 'suspend again',
    async setUp(scene, sessionId) {
      await fallAsleep(scene, sessionId);
      scene.stage.emulator.wake(sessionId);
      await scene.served(sessionId);
    },
    drive: ({ stage }, sessionId) => stage.emulator.sleep(sessionId),
    reach: asleep,
    prove: wakesWithFile,
  },
  {
    name: 'resume',
    setUp: fallAsleep,
    drive: ({ stage }, sessionId) => stage.emulator.wake(sessionId),
    reach: served,
    prove: hasFile,
  },
  {
    name: 'terminate',
    async setUp(scene, sessionId) {
      await scene.serve(sessionId);
      await scene.checkpoint();
      await scene.checkpointed(sessionId);
    },
    drive: ({ stage }, sessionId) => stage.emulator.terminate(sessionId),
    reach: gone,
  },
  {
    name: 'terminate asleep',
    setUp: fallAsleep,
    drive: ({ stage }, sessionId) => stage.emulator.enqueue({ sessionId, status: 'terminated' }),
    reach: gone,
  },
  {
    name: 'give up',
    stage: { env: { REMOTE_RESTART_LIMIT: '0' } },
    setUp: (scene, sessionId) => scene.serve(sessionId),
    drive: (scene, sessionId) => scene.crash(sessionId),
    reach: asleep,
    prove: (scene, sessionId) => scene.archiveHoldsFile(sessionId),
  },
  {
    name: 'roll-over',
    setUp: (scene, sessionId) => scene.serve(sessionId),
    drive: (scene, sessionId) => scene.endSoon(sessionId),
    async reach(scene, sessionId) {
      await scene.moved(sessionId);
      await scene.served(sessionId);
    },
    prove: hasFile,
  },
  {
    name: 'yield',
    setUp: (scene, sessionId) => scene.serve(sessionId),
    drive: ({ stage }, sessionId) => stage.emulator.steal(sessionId, 'somebody-else'),
    reach: (scene, sessionId) => scene.left(sessionId),
    async prove(scene, sessionId) {
      scene.stage.emulator.expire(sessionId);
      await scene.served(sessionId);
      await scene.remembers(sessionId);
    },
  },
  {
    name: 'take-over',
    servedBefore: true,
    setUp: nothing,
    drive: ({ stage }, sessionId) => stage.emulator.expire(sessionId),
    reach: served,
    prove: hasFile,
  },
  {
    name: 'drain',
    stage: { env: { SHUTDOWN_MODE: 'drain' } },
    setUp: (scene, sessionId) => scene.serve(sessionId),
    stops: true,
    drive: ({ stage }) => void process.kill(stage.daemon.pid ?? 0, 'SIGTERM'),
    reach: served,
    prove: hasFile,
  },
];
