/** What a daemon shows of itself, opened: the history on disk, the status view, the server in front of both. */
import type { Config } from '../config/config.ts';
import type { Clock, Random } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import type { Logger } from '../lib/log.ts';
import type { Redactor } from '../lib/secret.ts';
import { version } from '../lib/version.ts';
import { Access } from '../ops/access.ts';
import type { Health } from '../ops/health.ts';
import { Load } from '../ops/load.ts';
import { loginRoutes } from '../ops/login.ts';
import type { Metrics } from '../ops/metrics.ts';
import { ordersRoute } from '../ops/orders.ts';
import { pageRoutes } from '../ops/page.ts';
import type { RecentLog } from '../ops/recent-log.ts';
import { healthRoutes, metricsRoute, statusRoute } from '../ops/routes.ts';
import { startOpsServer, type OpsServer } from '../ops/server.ts';
import { StatusStream } from '../ops/status-stream.ts';
import type { StatusView } from '../ops/view.ts';
import { keepHistory, readHistory } from '../state/history-file.ts';
import { nodeDisk } from '../state/node-disk.ts';
import type { OpsPlace } from '../state/ops-file.ts';
import type { Identity } from './context.ts';
import type { Motor } from './motor.ts';
import { statusOf } from './status.ts';

interface OpsParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Logger;
  readonly redactor: Redactor;
}

export async function openOps(
  options: OpsParts,
  shown: {
    readonly health: Health;
    readonly metrics: Metrics;
    readonly status: () => StatusView;
    readonly order: Parameters<typeof ordersRoute>[0];
    readonly recentLog: RecentLog | undefined;
  },
): Promise<OpsServer & OpsPlace> {
  const { config, clock, random, log } = options;
  const { host, port, token } = config.ops;
  const access = new Access({ host, clock, random, token: token && (() => token.read()) });
  const load = new Load();
  const status = (): StatusView => ({ ...shown.status(), load: [...load.samples] });
  const stream = new StatusStream({ status: shown.status, load, clock, log });
  const server = await startOpsServer({
    host,
    port,
    access,
    log,
    routes: [
      ...pageRoutes(),
      ...loginRoutes(access, log),
      ...healthRoutes(shown.health),
      metricsRoute(shown.metrics),
      statusRoute(status),
      ordersRoute(shown.order),
      stream.route,
      ...(shown.recentLog === undefined ? [] : [shown.recentLog.route]),
    ],
  });
  const closing = new AbortController();
  const streaming = stream.run(closing.signal);
  return {
    url: server.url,
    control: access.control,
    async close() {
      closing.abort();
      await streaming;
      await server.close();
    },
  };
}

/** What was kept of earlier events goes into the motor's history; answers what saves it for the last time. */
export async function openHistory(options: OpsParts, motor: Motor): Promise<() => Promise<void>> {
  const { config, clock, log, redactor } = options;
  const { history, records } = motor;
  history.scrub = (text) => redactor.scrub(text);
  // What happened before is worth a warning, not a daemon that does not start.
  const kept = await readHistory(config.stateDir, nodeDisk).catch((error: unknown) => {
    log.warn('session events not read', { error: describeError(error) });
    return [];
  });
  history.restore(kept, (name) => records.get(name) !== undefined);
  const closing = new AbortController();
  const keeping = keepHistory(
    { history, stateDir: config.stateDir, disk: nodeDisk, clock, log },
    closing.signal,
  );
  return async () => {
    closing.abort();
    await keeping;
  };
}

/** The view of this daemon, anew at each call. */
export function statusSource(
  options: OpsParts,
  parts: {
    readonly motor: Motor;
    readonly health: Health;
    readonly identity: Identity;
    readonly provider: string;
  },
): () => StatusView {
  const { clock, redactor } = options;
  const { motor, health, identity, provider } = parts;
  const { outpostId, acceptorId: acceptor } = identity;
  const known = { version: version(), provider, startedAt: clock.now() };
  const scrub = (text: string): string => redactor.scrub(text);
  return () =>
    statusOf(
      motor,
      { ...known, ready: health.ready() },
      { outpostId, acceptorId: acceptor, now: clock.now(), scrub },
    );
}
