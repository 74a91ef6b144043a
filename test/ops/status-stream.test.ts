/** The stream of the status view, over real sockets. */
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { StatusView } from '../../src/ops/view.ts';
import { openOpsPage, type OpsPage } from '../support/ops-page.ts';
import { sampleSession, sampleView } from '../support/sample-view.ts';
import { until } from '../support/until.ts';

const NOW = Date.now();

interface Frame {
  readonly event: string;
  readonly data: StatusView & { readonly gone?: readonly string[] };
}

/** What a listener has been told so far. */
class Listener implements Disposable {
  readonly #stop = new AbortController();
  readonly frames: Frame[] = [];
  status: number | undefined;
  closed = false;

  constructor(ops: OpsPage) {
    void this.#read(`${ops.server.url}/api/events`);
  }

  async #read(url: string): Promise<void> {
    let text = '';
    try {
      const response = await fetch(url, { signal: this.#stop.signal });
      this.status = response.status;
      for await (const chunk of response.body ?? []) {
        const piece = Buffer.from(chunk).toString();
        text += piece;
        if (!piece.endsWith('\n\n')) continue;
        const parts = text.split('\n\n');
        text = parts.pop() ?? '';
        for (const part of parts) {
          const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) ?? [];
          if (event !== undefined && data !== undefined) this.frames.push({ event, data: JSON.parse(data) });
        }
      }
    } catch {
      // Cut by the test or by the server.
    }
    this.closed = true;
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }
}

describe('the status stream', () => {
  it('sends the whole view first, then only what changed', async () => {
    await using ops = await openOpsPage(sampleView(3, NOW));
    using listener = new Listener(ops);
    await until(() => listener.frames.length === 1);
    expect(listener.frames[0]).toMatchObject({ event: 'view', data: { slots: { max: 5 } } });
    expect(listener.frames[0]?.data.sessions).toHaveLength(3);
    const [gone, stays, changes] = ops.view.sessions;
    if (gone === undefined || stays === undefined || changes === undefined) throw new Error('no sessions');
    ops.view = { ...ops.view, sessions: [stays, { ...changes, restarts: 9 }] };
    const change = await until(() => listener.frames.find(({ event }) => event === 'change'));
    expect(change.data.gone).toEqual([gone.name]);
    expect(change.data.sessions.map(({ name, restarts }) => [name, restarts])).toEqual([[changes.name, 9]]);
    expect(Object.keys(change.data).toSorted()).toEqual(['at', 'gone', 'sessions']);
    using late = new Listener(ops);
    await until(() => late.frames.length === 1);
    expect(late.frames[0]?.data.sessions).toHaveLength(2);
  });

  it('gives a sign of life while nothing changes', async () => {
    await using ops = await openOpsPage(sampleView(1, NOW));
    using listener = new Listener(ops);
    await until(() => listener.frames.some(({ event }) => event === 'tick'));
  });

  it('keeps nothing for a listener that does not read, and gives it the whole view when it does', async () => {
    await using ops = await openOpsPage(sampleView(500, NOW));
    const { hostname, port } = new URL(ops.server.url);
    const slow = connect(Number(port), hostname);
    slow.pause();
    slow.write(`GET /api/events HTTP/1.1\r\nhost: ${hostname}\r\n\r\n`);
    using watcher = new Listener(ops);
    // It may fall behind itself, and is then given the whole view.
    const isTold = (round: number): boolean =>
      watcher.frames.some(({ data }) => data.sessions?.[0]?.restarts === round);
    for (let round = 1; round <= 4; round += 1) {
      // Every session changes: megabytes of news, more than sockets hold, that the slow one does not fetch.
      const sessions = Array.from({ length: 500 }, (_, at) => ({
        ...sampleSession(at, NOW),
        sandbox: 'x'.repeat(10_000),
        restarts: round,
      }));
      ops.view = { ...ops.view, sessions };
      await until(() => isTold(round));
    }
    const got = await drain(slow);
    slow.destroy();
    const count = (event: string): number => got.split(`event: ${event}\n`).length - 1;
    expect(count('view')).toBeGreaterThanOrEqual(2);
    expect(count('change')).toBeLessThan(4);
    expect(got.lastIndexOf('"restarts":4')).toBeGreaterThan(got.lastIndexOf('"restarts":1'));
  });

  it('takes a bounded number of listeners, and lets go of those that left', async () => {
    await using ops = await openOpsPage(sampleView(1, NOW));
    const listeners = Array.from({ length: 32 }, () => new Listener(ops));
    await until(() => listeners.every(({ status }) => status === 200));
    using refused = new Listener(ops);
    await until(() => refused.status === 503);
    for (const listener of listeners) listener[Symbol.dispose]();
    await until(async () => {
      using again = new Listener(ops);
      await until(() => again.status !== undefined);
      return again.status === 200;
    });
  });

  it('ends with the daemon', async () => {
    const ops = await openOpsPage(sampleView(1, NOW));
    using listener = new Listener(ops);
    await until(() => listener.frames.length === 1);
    await ops[Symbol.asyncDispose]();
    await until(() => listener.closed);
  });
});

/** Reads on until the newest news has come. */
async function drain(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  socket.resume();
  await until(() => text.includes('"restarts":4') && text.endsWith('\n\n\r\n'), {
    what: 'the slow one catches up',
  });
  return text;
}
