import { describe, expect, it } from 'vitest';
import { silentLogger } from '../../src/lib/log.ts';
import { History } from '../../src/orchestrator/history.ts';
import { event } from '../../src/session/events.ts';
import type { Disk } from '../../src/state/disk.ts';
import { keepHistory, readHistory } from '../../src/state/history-file.ts';

function memoryDisk(files: Map<string, Uint8Array>): Disk {
  return {
    read: async (path) => files.get(path),
    replace: async (path, content) => void files.set(path, content),
    setAside: async () => undefined,
  };
}

const clock = { now: () => 500, sleep: async () => undefined };

async function saved(history: History, files: Map<string, Uint8Array>): Promise<void> {
  const stop = new AbortController();
  const kept = keepHistory(
    { history, stateDir: '/s', disk: memoryDisk(files), clock, log: silentLogger },
    stop.signal,
  );
  stop.abort();
  await kept;
}

describe('the history', () => {
  it('survives a restart, and a session whose record went meanwhile counts as ended', async () => {
    const files = new Map<string, Uint8Array>();
    const history = new History(clock);
    const stop = new AbortController();
    const kept = keepHistory(
      { history, stateDir: '/s', disk: memoryDisk(files), clock, log: silentLogger },
      stop.signal,
    );
    history.note('dvo-a', 'devin-a', [event(1, 'claimed')]);
    history.note('dvo-b', 'devin-b', [event(2, 'claimed')]);
    stop.abort();
    await kept;
    const next = new History(clock);
    next.restore(await readHistory('/s', memoryDisk(files)), (name) => name === 'dvo-a');
    expect(next.of('dvo-a')).toEqual([event(1, 'claimed')]);
    expect(next.ended()).toEqual([
      ['dvo-b', { sessionId: 'devin-b', events: [event(2, 'claimed')], endedAt: 2 }],
    ]);
  });

  it('a damaged file costs what it held and nothing else', async () => {
    for (const content of ['', '{"version":1,', '{"version":7}', '\0\0']) {
      const files = new Map([['/s/session_events.json', Buffer.from(content)]]);
      expect(await readHistory('/s', memoryDisk(files))).toEqual([]);
    }
  });

  it('a quiet time writes nothing', async () => {
    const files = new Map<string, Uint8Array>();
    await saved(new History(clock), files);
    expect(files.size).toBe(0);
  });

  it('keeps the last fifty ended ones; one that comes back is not ended', () => {
    const history = new History(clock);
    for (let at = 0; at < 60; at += 1) {
      history.note(`dvo-${at}`, `devin-${at}`, [event(at, 'claimed')]);
      history.end(`dvo-${at}`);
    }
    expect(history.ended()).toHaveLength(50);
    expect(history.ended()[0]?.[1].events.at(-1)).toEqual({ at: 500, what: 'let go' });
    expect(history.of('dvo-0')).toEqual([]);
    history.note('dvo-59', 'devin-59', [event(600, 'claimed')]);
    expect(history.ended().map(([name]) => name)).not.toContain('dvo-59');
    expect(history.of('dvo-59')).toHaveLength(3);
  });

  it('scrubs what it is told', () => {
    const history = new History(clock);
    history.scrub = (text) => text.replace('secret', '…');
    history.note('dvo-a', 'devin-a', [event(1, 'step failed', 'claim: secret')]);
    expect(JSON.stringify(history.of('dvo-a'))).not.toContain('secret');
  });
});
