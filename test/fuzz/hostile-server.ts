/** A server on loopback that answers each request with something else: bytes on a raw socket, cut, slow, or without an end. */
import { createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import { anyEvent, anyPage, anyReply, damaged } from '../support/hostile.ts';

const MB = 1024 * 1024;
/** What comes over and over, and how much of it: events that never end far above their limit, whole ones a little. */
const FLOODS = [
  { chunk: Buffer.from(`data: ${'x'.repeat(60_000)}\n: keepalive\n`), bytes: 16 * MB },
  { chunk: Buffer.from('x'.repeat(60_000)), bytes: 16 * MB },
  { chunk: Buffer.from(': keepalive\n'.repeat(5_000)), bytes: 4 * MB },
  { chunk: Buffer.from('data: {}\n\n'.repeat(500)), bytes: MB / 8 },
];

const stream = fc
  .array(anyEvent, { maxLength: 20 })
  .map((events) => events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));

export class HostileServer {
  /** From now on every answer is right: one page with this text, and a watch that keeps alive. */
  honest: string | undefined;
  requests = 0;
  /** Bytes sent, endless streams included. */
  sent = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #replies: IterableIterator<ReturnType<typeof pick>>;

  constructor(seed: number) {
    this.#replies = endless(seed);
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    // A client that hangs up is what this is about.
    socket.on('error', () => socket.destroy());
    socket.on('data', (head) => this.#answer(socket, head.toString('latin1')));
  }

  #answer(socket: Socket, head: string): void {
    this.requests += 1;
    const watch = head.includes('watch=true');
    if (this.honest !== undefined) {
      const text = watch ? ': keepalive\n\n' : this.honest;
      const type = watch
        ? 'text/event-stream'
        : `application/json\r\ncontent-length: ${Buffer.byteLength(text)}`;
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: ${watch ? 'close' : 'keep-alive'}\r\n\r\n${text}`,
      );
      return;
    }
    const reply = this.#replies.next().value;
    if (reply.head !== undefined) socket.write(reply.head);
    else socket.write(`HTTP/1.1 ${reply.status} X\r\nretry-after: 1\r\nconnection: close\r\n\r\n`);
    if (reply.endless !== undefined) {
      this.#flood(socket, reply.endless);
      return;
    }
    for (const chunk of watch ? reply.events : reply.chunks) {
      this.sent += chunk.length;
      socket.write(chunk);
    }
    if (reply.breaks) socket.destroy();
    else if (!reply.hangs) socket.end();
  }

  /** On and on, until the client hangs up; or far above the limit on one event, for what has to be read on. */
  #flood(socket: Socket, { chunk, bytes }: (typeof FLOODS)[number]): void {
    let left = bytes;
    const more = (): void => {
      if (socket.destroyed) return;
      if (left <= 0) socket.end();
      else if (socket.write(chunk)) setImmediate(more);
      left -= chunk.length;
      this.sent += chunk.length;
    };
    socket.on('drain', more);
    more();
  }
}

function pick(seed: number) {
  const few = { seed, numRuns: 1 };
  const [reply] = fc.sample(anyReply(anyPage), few);
  const [events] = fc.sample(damaged(stream), few);
  const [kind] = fc.sample(fc.record({ head: fc.nat(30), endless: fc.nat(40), hangs: fc.nat(20) }), few);
  const [garbage] = fc.sample(fc.uint8Array({ minLength: 1, maxLength: 300 }), few);
  return {
    status: reply?.status ?? 200,
    chunks: reply?.chunks ?? [],
    breaks: reply?.breaks === true,
    events: [Buffer.from(events ?? [])],
    head: kind?.head === 0 ? Buffer.from(garbage ?? []) : undefined,
    endless: FLOODS[kind?.endless ?? FLOODS.length],
    hangs: kind?.hangs === 0,
  };
}

function* endless(seed: number): IterableIterator<ReturnType<typeof pick>> {
  for (let at = seed; ; at += 1) yield pick(at);
}
