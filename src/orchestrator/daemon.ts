/**
 * The daemon: the motor behind its ops server, running, and closed in reverse order, also when a start fails half-way.
 * Signals and exit codes are the command line's.
 */
import { readiness, type Health, type Heartbeats } from '../ops/health.ts';
import type { RecentLog } from '../ops/recent-log.ts';
import type { Rules } from '../session/rules.ts';
import { nodeDisk } from '../state/node-disk.ts';
import { removeOpsFile, writeOpsFile } from '../state/ops-file.ts';
import { giveOrder } from './give-order.ts';
import type { Motor } from './motor.ts';
import { openMotor, type MotorOptions } from './open-motor.ts';
import { openOps, statusSource } from './open-ops.ts';
import { keptForWant } from './records.ts';

export interface DaemonOptions extends MotorOptions {
  /** What `log` has written of late, to be shown. */
  readonly recentLog?: RecentLog;
}

export interface Daemon {
  readonly opsUrl: string;
  /** Stops as configured, or as asked; resolves when everything is closed. */
  stop(mode?: 'detach' | 'drain'): Promise<void>;
}

/** @throws DvoError `state`, `locked`, `config`: nothing was claimed, and everything opened is closed again */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { config, log } = options;
  await using opened = new AsyncDisposableStack();
  const { stateDir } = config;
  const { motor, identity, provider, metrics, beats, origin, rules } = await openMotor(options, opened);
  const health = healthOf(motor, beats, rules);
  const status = statusSource(options, { motor, health, identity, provider: provider.name });
  const ops = await openOps(options, {
    health,
    metrics,
    status,
    recentLog: options.recentLog,
    async order(sessionId, order) {
      const answer = await giveOrder({ ...options, records: motor.records, identity }, sessionId, order);
      motor.wake(sessionId);
      return answer;
    },
  });
  opened.defer(() => ops.close());
  await writeOpsFile(stateDir, nodeDisk, { url: ops.url, control: ops.control });
  opened.defer(() => removeOpsFile(stateDir));
  motor.start();
  log.info('started', {
    outpost: identity.outpostId,
    acceptor: identity.acceptorId,
    provider: provider.name,
    index: origin,
    ops: ops.url,
    stateDir,
  });
  const closing = opened.move();
  let stopping: Promise<void> | undefined;
  return {
    opsUrl: ops.url,
    stop(mode = config.shutdown.mode) {
      stopping ??= stopAll(motor, mode, config.shutdown.graceMs, closing);
      return stopping;
    },
  };
}

async function stopAll(
  motor: Motor,
  mode: 'detach' | 'drain',
  graceMs: number,
  closing: AsyncDisposableStack,
): Promise<void> {
  await using _ = closing;
  await motor.stop(mode, graceMs);
}

function healthOf(motor: Motor, beats: Heartbeats, rules: Rules): Health {
  return {
    alive: () => beats.alive(),
    ready() {
      const { synced, problem, unauthorized } = motor.queue.health();
      const { pauses } = motor.gate;
      const { records } = motor;
      return readiness({
        synced,
        problem,
        unauthorized,
        pauses,
        indexTrouble: records.trouble,
        keptForWant: rules.suspendMode === 'snapshot' ? keptForWant(records) : 0,
      });
    },
  };
}
