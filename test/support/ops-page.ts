/** The ops server with a view that the test holds in its hand, and real Chromium in front of it. */
import { existsSync } from 'node:fs';
import { chromium, type Browser, type Page } from 'playwright-core';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import { Secret } from '../../src/lib/secret.ts';
import { Access } from '../../src/ops/access.ts';
import { Load } from '../../src/ops/load.ts';
import { loginRoutes } from '../../src/ops/login.ts';
import { pageRoutes } from '../../src/ops/page.ts';
import { statusRoute } from '../../src/ops/routes.ts';
import { startOpsServer, type OpsServer } from '../../src/ops/server.ts';
import { StatusStream } from '../../src/ops/status-stream.ts';
import type { StatusView } from '../../src/ops/view.ts';

const CHROMIUM = '/usr/bin/chromium';
/** Debian's; `apt-get install chromium`. Without it the tests that need a browser are skipped, and say so. */
export const hasChromium = existsSync(CHROMIUM);

export async function launchChromium(): Promise<Browser> {
  return await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

export interface OpsPage extends AsyncDisposable {
  readonly server: OpsServer;
  view: StatusView;
}

/** @param token as if OPS_TOKEN were set to it */
export async function openOpsPage(view: StatusView, token?: string, port = 0): Promise<OpsPage> {
  const load = new Load();
  for (const sample of view.load ?? []) load.add(sample);
  const access = new Access({
    host: '127.0.0.1',
    clock: systemClock,
    random: systemRandom,
    token: token === undefined ? undefined : () => new Secret(token),
  });
  const status = (): StatusView => ({ ...opened.view, at: systemClock.now() });
  const stream = new StatusStream({ status, load, clock: systemClock, log: silentLogger });
  const server = await startOpsServer({
    host: '127.0.0.1',
    port,
    access,
    log: silentLogger,
    routes: [...pageRoutes(), ...loginRoutes(access, silentLogger), statusRoute(status), stream.route],
  });
  const closing = new AbortController();
  const streaming = stream.run(closing.signal);
  const opened: OpsPage = {
    server,
    view,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await streaming;
      await server.close();
    },
  };
  return opened;
}

/** Every complaint of the page: errors, refused resources, broken policies. */
export function complaintsOf(page: Page): readonly string[] {
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  return complaints;
}
