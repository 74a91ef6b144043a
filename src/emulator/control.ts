/** The control API: the emulator's verbs as JSON over HTTP, for other processes. See docs/emulator.md. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { describeError, DvoError } from '../lib/errors.ts';
import type { Emulator } from './emulator.ts';
import { readBody, sendJson } from './http.ts';
import { ROUTES } from './settings.ts';

const session = z.object({ sessionId: z.string() });

const VERBS = {
  enqueue: verb(
    session.extend({
      kind: z.enum(['new', 'resume']).exactOptional(),
      platform: z.string().exactOptional(),
      remoteSha: z.string().exactOptional(),
      networkPolicy: z.unknown().exactOptional(),
      status: z.enum(['pending', 'running', 'suspended', 'terminated']).exactOptional(),
    }),
    (emulator, body) => emulator.enqueue(body),
  ),
  message: verb(session.extend({ command: z.string() }), (emulator, { sessionId, command }) =>
    emulator.message(sessionId, command),
  ),
  sleep: verb(session, (emulator, { sessionId }) => emulator.sleep(sessionId)),
  wake: verb(session, (emulator, { sessionId }) => emulator.wake(sessionId)),
  terminate: verb(session, (emulator, { sessionId }) => emulator.terminate(sessionId)),
  steal: verb(session.extend({ acceptor: z.string() }), (emulator, { sessionId, acceptor }) =>
    emulator.steal(sessionId, acceptor),
  ),
  expire: verb(session, (emulator, { sessionId }) => emulator.expire(sessionId)),
  flash: verb(session.extend({ forMs: z.number() }), (emulator, { sessionId, forMs }) =>
    emulator.flash(sessionId, forMs),
  ),
  crash: verb(session.extend({ code: z.number() }), (emulator, { sessionId, code }) =>
    emulator.crashRemote(sessionId, code),
  ),
  publish: verb(z.object({ label: z.string() }), (emulator, { label }) => ({
    sha: emulator.distribution.publish(label),
  })),
  inject: verb(z.object({ text: z.string() }), (emulator, { text }) => emulator.queue.inject(text)),
  knobs: verb(z.record(z.string(), z.unknown()), (emulator, knobs) => {
    const unknown = Object.keys(knobs).filter((name) => !(name in emulator.knobs));
    if (unknown.length > 0) throw new DvoError('internal', `no such knob: ${unknown.join(', ')}`);
    Object.assign(emulator.knobs, knobs);
    return emulator.knobs;
  }),
  fault: verb(
    z.object({
      route: z.enum(['*', ...ROUTES]),
      kind: z.enum(['status', 'html', 'reset', 'reset-after', 'hang', 'cut', 'delay']),
      status: z.number().exactOptional(),
      headers: z.record(z.string(), z.string()).exactOptional(),
      ms: z.number().exactOptional(),
      count: z.number().default(1),
      sessionId: z.string().exactOptional(),
    }),
    (emulator, fault) => emulator.fault(fault),
  ),
  'clear-faults': verb(z.object({}), (emulator) => emulator.faults.clear()),
} as const;

type Verb = (emulator: Emulator, body: unknown) => unknown;

function verb<Body>(schema: z.ZodType<Body>, act: (emulator: Emulator, body: Body) => unknown): Verb {
  return (emulator, body) => act(emulator, schema.parse(body));
}

const BY_NAME: ReadonlyMap<string, Verb> = new Map(Object.entries(VERBS));

export async function serveControl(
  emulator: Emulator,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const name = (request.url ?? '').replace(/^\/control\//, '');
  if (request.method === 'GET' && name === 'state') {
    sendJson(response, 200, emulator.state());
    return;
  }
  const act = request.method === 'POST' ? BY_NAME.get(name) : undefined;
  if (act === undefined) {
    sendJson(response, 404, { error: `no verb ${name}`, verbs: ['GET state', ...BY_NAME.keys()] });
    return;
  }
  try {
    const text = await readBody(request);
    const result = await act(emulator, text === '' ? {} : JSON.parse(text));
    sendJson(response, 200, result ?? {});
  } catch (error) {
    sendJson(response, 400, { error: describeError(error) });
  }
}
