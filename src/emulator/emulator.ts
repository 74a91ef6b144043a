/**
 * Devin's side in a box: queue, gateway, binary distribution and a stand-in remote, on loopback. For the demo, the
 * tests and the benches; never part of a real set-up. The returned handle and the control API have the same verbs.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Clock, Random } from '../lib/clock.ts';
import { DvoError } from '../lib/errors.ts';
import { closeServer, listenOn } from '../lib/http-server.ts';
import { Connect } from './connect.ts';
import { serveControl } from './control.ts';
import { Distribution } from './distribution.ts';
import { Gateway, type CommandResult, type RemoteFacts } from './gateway.ts';
import { QueueRoutes } from './queue-routes.ts';
import { Router } from './router.ts';
import { DEFAULT_KNOBS, Faults, type Fault, type Knobs } from './settings.ts';
import { Store, type NewSession, type SessionTimes, type Status } from './store.ts';

export interface EmulatorOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** 0: any free one. */
  readonly port?: number;
  readonly controlPort?: number;
  readonly outpostId?: string;
  readonly knobs?: Partial<Knobs>;
  /** Absolute path of a Node that runs the stand-in remotes. */
  readonly node: string;
}

export interface SessionView {
  readonly sessionId: string;
  readonly phase: 'pending' | 'claimed';
  readonly status: Status;
  readonly queued: boolean;
  readonly acceptor: string | undefined;
  readonly remote: RemoteFacts | undefined;
  readonly seen: SessionTimes;
}

export interface EmulatorState {
  readonly outpostId: string;
  readonly depth: number;
  readonly openWatches: number;
  /** What must never happen: two remotes of one session, a dead row claimed. */
  readonly violations: readonly string[];
  readonly requests: Readonly<Record<string, number>>;
  readonly sessions: readonly SessionView[];
}

/** How often claims that ran out are noticed without anybody asking. */
const LAPSE_EVERY_MS = 100;

export async function startEmulator(options: EmulatorOptions): Promise<Emulator> {
  const emulator = new Emulator(options);
  await emulator.listen(options.port ?? 0, options.controlPort ?? 0);
  return emulator;
}

export class Emulator {
  readonly outpostId: string;
  readonly knobs: Knobs;
  readonly faults = new Faults();
  readonly store: Store;
  readonly queue: QueueRoutes;
  readonly gateway: Gateway;
  readonly distribution: Distribution;
  readonly #clock: Clock;
  readonly #router: Router;
  readonly #servers: Server[] = [];
  readonly #closing = new AbortController();
  #url = '';
  #controlUrl = '';

  constructor(options: EmulatorOptions) {
    const { clock, random } = options;
    this.#clock = clock;
    this.outpostId = options.outpostId ?? 'outpost_env-emulator';
    this.knobs = { ...DEFAULT_KNOBS, ...options.knobs };
    this.store = new Store(this.knobs, clock, random);
    this.distribution = new Distribution(this.knobs, options.node);
    this.distribution.publish('first');
    this.queue = new QueueRoutes({
      store: this.store,
      knobs: this.knobs,
      clock,
      outpostId: this.outpostId,
      gatewayUrl: () => this.gatewayUrl,
    });
    this.gateway = new Gateway({
      store: this.store,
      clock,
      onConnected: (sessionId) => this.#setStatus(sessionId, 'running'),
      onGone: () => undefined,
    });
    this.#router = new Router({
      clock,
      outpostId: this.outpostId,
      knobs: this.knobs,
      faults: this.faults,
      queue: this.queue,
      distribution: this.distribution,
      connect: new Connect({
        clock,
        random,
        knobs: this.knobs,
        outpostId: this.outpostId,
        apiUrl: () => this.url,
      }),
    });
  }

  /** DEVIN_API_URL for a daemon. */
  get url(): string {
    return this.#url;
  }

  get controlUrl(): string {
    return this.#controlUrl;
  }

  /** DEVIN_WORKER_STATIC_BASE_URL for a daemon. */
  get staticUrl(): string {
    return `${this.#url}/remote`;
  }

  get gatewayUrl(): string {
    return `${this.#url.replace('http', 'ws')}/gateway`;
  }

  async listen(port: number, controlPort: number): Promise<void> {
    const api = this.#serve((request, response) => this.#router.respond(request, response));
    api.on('upgrade', (request, socket, head) => this.gateway.upgrade(request, socket, head));
    this.#url = await openUrl(api, port);
    this.#controlUrl = await openUrl(
      this.#serve((request, response) => serveControl(this, request, response)),
      controlPort,
    );
    void this.#lapseLoop(this.#closing.signal);
  }

  enqueue(session: NewSession): void {
    this.store.enqueue(session);
  }

  /** A prompt: a shell command in the remote's working directory. */
  async message(sessionId: string, command: string): Promise<CommandResult> {
    return await this.gateway.run(sessionId, command);
  }

  /** Devin suspends the session: the remote is told to end, the row shows it for a moment, then leaves the queue. */
  sleep(sessionId: string): void {
    void this.#end(sessionId, 'suspended', this.knobs.suspendedVisibleMs);
  }

  /** The user goes on: the session is queued again, to be resumed. */
  wake(sessionId: string): void {
    this.store.enqueue({ sessionId, kind: 'resume' });
  }

  terminate(sessionId: string): void {
    void this.#end(sessionId, 'terminated', this.knobs.tombstoneMs);
  }

  /** Another acceptor takes the claim. */
  steal(sessionId: string, acceptor: string): void {
    const session = this.store.row(sessionId);
    if (session === undefined) throw new DvoError('internal', `${sessionId} is not in the queue`);
    session.phase = 'pending';
    this.store.claim(sessionId, acceptor);
  }

  /** The claim runs out now. */
  expire(sessionId: string): void {
    const session = this.store.row(sessionId);
    if (session?.claimDeadline === undefined) return;
    session.claimDeadline = this.#clock.now();
    this.store.lapseAll();
  }

  /** The row shows `suspended` for a moment, though the session goes on. */
  flash(sessionId: string, forMs: number): void {
    const session = this.store.sessions.get(sessionId);
    this.#setStatus(sessionId, 'suspended');
    void this.#later(forMs, () => {
      // What has been put to an end meanwhile stays ended.
      const over = session?.status !== 'suspended' || this.store.sessions.get(sessionId) !== session;
      if (!over) this.#setStatus(sessionId, 'running');
    });
  }

  crashRemote(sessionId: string, code: number): void {
    this.gateway.tell(sessionId, { type: 'crash', code });
  }

  fault(fault: Fault): void {
    this.faults.add(fault);
  }

  state(): EmulatorState {
    return {
      outpostId: this.outpostId,
      depth: this.store.depth,
      openWatches: this.queue.openWatches,
      violations: this.store.violations,
      requests: this.#router.counts,
      sessions: [...this.store.sessions.keys()].flatMap((id) => this.session(id) ?? []),
    };
  }

  session(sessionId: string): SessionView | undefined {
    const session = this.store.sessions.get(sessionId);
    if (session === undefined) return undefined;
    const { phase, status, queued, acceptor, seen } = session;
    return { sessionId, phase, status, queued, acceptor, seen, remote: this.gateway.remote(sessionId) };
  }

  async stop(): Promise<void> {
    this.#closing.abort();
    this.queue.closeWatches();
    this.gateway.close();
    await Promise.all(this.#servers.map((server) => closeServer(server)));
  }

  async #end(sessionId: string, status: 'suspended' | 'terminated', visibleMs: number): Promise<void> {
    const session = this.store.sessions.get(sessionId);
    if (session === undefined) throw new DvoError('internal', `no session ${sessionId}`);
    this.gateway.tell(sessionId, { type: 'exit' });
    await this.#later(this.knobs.statusLagMs, () => this.#setStatus(sessionId, status));
    await this.#later(visibleMs, () => {
      if (session.status === status && this.store.sessions.get(sessionId) === session)
        this.store.remove(session);
    });
  }

  #setStatus(sessionId: string, status: Status): void {
    const session = this.store.sessions.get(sessionId);
    if (session === undefined || session.status === status) return;
    session.status = status;
    this.store.changed(session);
  }

  async #later(ms: number, work: () => void): Promise<void> {
    try {
      if (ms > 0) await this.#clock.sleep(ms, this.#closing.signal);
      work();
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    }
  }

  async #lapseLoop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.store.lapseAll();
      await this.#clock.sleep(LAPSE_EVERY_MS, signal).catch(() => undefined);
    }
  }

  #serve(respond: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Server {
    const server = createServer((request, response) => {
      respond(request, response).catch(() => response.destroy());
    });
    this.#servers.push(server);
    return server;
  }
}

async function openUrl(server: Server, port: number): Promise<string> {
  // Loopback only: whoever reaches the control API runs commands.
  return `http://127.0.0.1:${await listenOn(server, port, '127.0.0.1')}`;
}
