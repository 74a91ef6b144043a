/** A child of the bench: holds many sessions, and reports what that costs. argv: url, outpost, token, sessions, seconds. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../support/until.ts';
import { nullWorld, startMotor } from '../support/null-world.ts';

const [, , url = '', outpostId = '', token = '', sessions = '1000', seconds = '20'] = process.argv;
const stateDir = await mkdtemp(join(tmpdir(), 'dvo-bench-'));
const world = nullWorld();
const setup = { url, outpostId, token, stateDir, maxSessions: 5_000 };
const motor = await startMotor({ ...setup, world });
await until(() => motor.records.stages.serving >= Number(sessions), { withinMs: 120_000 });
await new Promise((resolve) => setTimeout(resolve, 3_000));
const before = process.cpuUsage();
await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1_000));
const used = process.cpuUsage(before);
const percent = (used.user + used.system) / 10_000 / Number(seconds);
const megabytes = process.memoryUsage().rss / 1024 / 1024;
await motor.stop('detach', 5_000);
// The same sessions again, as after a restart; every look at a machine takes 20 ms.
const slow = nullWorld(20, world);
const again = await startMotor({ ...setup, world: slow });
const startedAt = performance.now();
await until(() => slow.probes() >= Number(sessions), { withinMs: 60_000 });
const reattachMs = performance.now() - startedAt;
await again.stop('detach', 5_000);
process.stdout.write(`${JSON.stringify({ percent, megabytes, reattachMs })}\n`);
process.exit(0);
