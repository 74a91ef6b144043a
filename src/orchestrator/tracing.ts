/** The tracer as configured, and the ports whose calls it sees. */
import type { Config } from '../config/config.ts';
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { Redactor } from '../lib/secret.ts';
import { noTracer, type Tracer } from '../lib/tracer.ts';
import type { Metrics } from '../ops/metrics.ts';
import { openTraces, type Traces } from '../ops/traces.ts';
import type { OutpostsApi } from '../outposts/outposts.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';

export interface TracerParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  readonly redactor: Redactor;
}

/** As configured: without an endpoint nothing is traced, and no SDK is loaded. */
export async function openTracer(
  parts: TracerParts,
  to: { readonly outpostId: string; readonly acceptorId: string; readonly metrics: Metrics },
): Promise<Traces> {
  const { traces } = parts.config;
  if (traces === undefined) return { tracer: noTracer, close: () => Promise.resolve() };
  const { endpoint, headers } = traces;
  return await openTraces({
    ...parts,
    ...to,
    endpoint,
    ...(headers === undefined ? {} : { headers: () => headers.read() }),
    onExport: (result, spans) => to.metrics.spans(result, spans),
  });
}

/** The watch is left out: it lasts for minutes and belongs to no session. */
export function tracedApi(api: OutpostsApi, tracer: Tracer): OutpostsApi {
  const run = <T>(operation: string, work: () => Promise<T>): Promise<T> =>
    tracer.call(`devin ${operation}`, {}, work);
  return {
    acceptorId: api.acceptorId,
    list: (query, call) => run('list', () => api.list(query, call)),
    watch: (cursor, call) => api.watch(cursor, call),
    get: (sessionId, call) => run('get', () => api.get(sessionId, call)),
    claim: (sessionId, call) => run('claim', () => api.claim(sessionId, call)),
    release: (sessionId, call) => run('release', () => api.release(sessionId, call)),
  };
}

/** Logs are left out: they are followed for people, not by steps. */
export function tracedProvider(provider: SandboxProvider, tracer: Tracer): SandboxProvider {
  const { name, capabilities } = provider;
  const run = <T>(operation: string, what: Readonly<Record<string, string>>, work: () => Promise<T>) =>
    tracer.call(`${name} ${operation}`, what, work);
  const inside = (id: string) => ({ 'dvo.sandbox_id': id });
  const archive = (id: string) => ({ 'dvo.archive': id });
  return {
    name,
    capabilities,
    list: (query, call) => run('list', {}, () => provider.list(query, call)),
    get: (id, call) => run('get', inside(id), () => provider.get(id, call)),
    create: (request, call) => {
      const from = request.restoreFrom === undefined ? {} : archive(request.restoreFrom);
      return run('create', from, () => provider.create(request, call));
    },
    exec: (id, request, call) => run('exec', inside(id), () => provider.exec(id, request, call)),
    readFile: (id, path, call) => run('read file', inside(id), () => provider.readFile(id, path, call)),
    writeFile: (id, path, content, call) =>
      run('write file', inside(id), () => provider.writeFile(id, path, content, call)),
    upload: (id, localPath, path, call) =>
      run('upload', inside(id), () => provider.upload(id, localPath, path, call)),
    snapshot: (id, call) => run('snapshot', inside(id), () => provider.snapshot(id, call)),
    snapshots: (id, call) => run('snapshots', inside(id), () => provider.snapshots(id, call)),
    getSnapshot: (id, call) => run('get snapshot', archive(id), () => provider.getSnapshot(id, call)),
    deleteSnapshot: (id, call) =>
      run('delete snapshot', archive(id), () => provider.deleteSnapshot(id, call)),
    destroy: (id, call) => run('destroy', inside(id), () => provider.destroy(id, call)),
    logs: (id, options, signal) => provider.logs(id, options, signal),
    close: () => provider.close(),
  };
}
