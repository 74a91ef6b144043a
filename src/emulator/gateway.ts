/** Where remotes connect to: a WebSocket server that knows which token belongs to which session. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type RawData, type WebSocket } from 'ws';
import { z } from 'zod';
import type { Clock } from '../lib/clock.ts';
import { DvoError } from '../lib/errors.ts';
import type { Store } from './store.ts';

const FROM_REMOTE = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('hello'),
    session: z.string(),
    token: z.string(),
    pid: z.number(),
    cwd: z.string(),
    env: z.array(z.string()),
  }),
  z.object({ type: z.literal('result'), id: z.number(), code: z.number(), output: z.string() }),
]);

export interface RemoteFacts {
  readonly pid: number;
  readonly cwd: string;
  readonly env: readonly string[];
}

export interface CommandResult {
  readonly code: number;
  readonly output: string;
}

interface Connection extends RemoteFacts {
  readonly socket: WebSocket;
}

interface Waiting {
  readonly socket: WebSocket;
  readonly result: PromiseWithResolvers<CommandResult>;
}

export interface GatewayOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly onConnected: (sessionId: string) => void;
  readonly onGone: (sessionId: string) => void;
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #server = new WebSocketServer({ noServer: true });
  readonly #connections = new Map<string, Connection>();
  readonly #waiting = new Map<number, Waiting>();
  #commands = 0;

  constructor(options: GatewayOptions) {
    this.#options = options;
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#server.handleUpgrade(request, socket, head, (connection) => this.#accept(connection));
  }

  remote(sessionId: string): RemoteFacts | undefined {
    const connection = this.#connections.get(sessionId);
    if (connection === undefined) return undefined;
    const { pid, cwd, env } = connection;
    return { pid, cwd, env };
  }

  /**
   * Runs a shell command in the remote's working directory.
   * @throws DvoError `internal` when no remote is connected, or its connection breaks before it has answered
   */
  async run(sessionId: string, command: string): Promise<CommandResult> {
    const connection = this.#connections.get(sessionId);
    if (connection === undefined) throw new DvoError('internal', `no remote of ${sessionId} is connected`);
    this.#commands += 1;
    const id = this.#commands;
    const result = Promise.withResolvers<CommandResult>();
    this.#waiting.set(id, { socket: connection.socket, result });
    connection.socket.send(JSON.stringify({ type: 'run', id, command }));
    try {
      return await result.promise;
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** False when no remote of the session is connected. */
  tell(sessionId: string, message: Readonly<Record<string, unknown>>): boolean {
    const connection = this.#connections.get(sessionId);
    connection?.socket.send(JSON.stringify(message));
    return connection !== undefined;
  }

  /** Breaks the connections; the remotes come back. */
  drop(): void {
    for (const { socket } of this.#connections.values()) socket.terminate();
  }

  close(): void {
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
  }

  #accept(socket: WebSocket): void {
    let sessionId: string | undefined;
    socket.on('message', (data) => {
      const parsed = FROM_REMOTE.safeParse(JSON.parse(text(data)));
      if (!parsed.success) return;
      if (parsed.data.type === 'hello') sessionId = this.#hello(socket, parsed.data);
      else this.#waiting.get(parsed.data.id)?.result.resolve(parsed.data);
    });
    socket.on('close', () => {
      for (const waiting of this.#waiting.values()) {
        if (waiting.socket === socket)
          waiting.result.reject(new DvoError('internal', 'the remote’s connection broke before it answered'));
      }
      if (sessionId === undefined || this.#connections.get(sessionId)?.socket !== socket) return;
      this.#connections.delete(sessionId);
      this.#options.onGone(sessionId);
    });
    socket.on('error', () => socket.terminate());
  }

  #hello(
    socket: WebSocket,
    hello: RemoteFacts & { readonly session: string; readonly token: string },
  ): string | undefined {
    const { store, onConnected, clock } = this.#options;
    const session = store.sessions.get(hello.session);
    if (session === undefined || !session.tokens.has(hello.token)) {
      socket.close(4401, 'token refused');
      return undefined;
    }
    if (session.status === 'suspended' || session.status === 'terminated') {
      socket.send(JSON.stringify({ type: 'exit' }));
      return undefined;
    }
    const other = this.#connections.get(session.id);
    if (other !== undefined && other.pid !== hello.pid) {
      store.violations.push(`${session.id} has two remotes: processes ${other.pid} and ${hello.pid}`);
    }
    const { pid, cwd, env } = hello;
    this.#connections.set(session.id, { socket, pid, cwd, env });
    session.seen.connectedAt = clock.now();
    socket.send(JSON.stringify({ type: 'welcome' }));
    onConnected(session.id);
    return session.id;
  }
}

function text(data: RawData): string {
  if (Array.isArray(data)) return Buffer.concat(data).toString('utf8');
  return Buffer.isBuffer(data) ? data.toString('utf8') : Buffer.from(data).toString('utf8');
}
