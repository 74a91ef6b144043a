/**
 * Loaded into the daemon process of a soak run: on SIGUSR2 it collects garbage and writes down what the process holds.
 * Nothing else changes.
 */
import { renameSync, writeFileSync } from 'node:fs';

const file = process.env['SOAK_REPORT'] ?? '';
let reports = 0;

process.on('SIGUSR2', () => {
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  reports += 1;
  writeFileSync(`${file}.new`, JSON.stringify({ reports, heap: heapUsed + external, rss, resources }));
  renameSync(`${file}.new`, file);
});
