import { execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { silentLogger } from '../../src/lib/log.ts';
import type { Disk } from '../../src/state/disk.ts';
import { lockStateDir } from '../../src/state/lock.ts';
import { nodeDisk, removeTemporaries } from '../../src/state/node-disk.ts';
import { openSessionIndex } from '../../src/state/session-index.ts';
import { acceptorId, cursorStore, openStateDir } from '../../src/state/state-dir.ts';
import { record } from '../session/view.ts';
import { until } from '../support/until.ts';

const OWNER = { outpostId: 'outpost-1', acceptorId: 'me' };
const folders: string[] = [];
const undo: (() => void)[] = [];

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'dvo-state-'));
  folders.push(made);
  return made;
}

afterEach(() => {
  for (const act of undo.splice(0)) act();
  for (const one of folders.splice(0)) rmSync(one, { recursive: true, force: true });
});

async function open(stateDir: string, disk: Disk = nodeDisk) {
  return await openSessionIndex({ ...OWNER, disk, stateDir, clock: systemClock, log: silentLogger });
}

const indexPath = (stateDir: string): string => join(stateDir, 'sandbox_index.json');
const asText = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

describe('the session index', () => {
  it('gives back after a restart what was committed', async () => {
    const stateDir = folder();
    const { index, origin } = await open(stateDir);
    expect(origin).toBe('new');
    const full = record('serving', {
      sandboxId: 'sb',
      obsolete: ['s'],
      remote: { launchId: 'l', launchedAt: 1, pid: 2 },
    });
    index.put('dvo-a', full);
    index.putFailures('dvo-b', { sessionId: 'b', attempts: 2, coolUntil: 3, reason: 'x' });
    await index.commit();
    const again = await open(stateDir);
    expect(again.origin).toBe('read');
    expect(again.index.get('dvo-a')).toEqual(full);
    expect(again.index.failures('dvo-b')?.attempts).toBe(2);
  });

  it('writes once for many changes, and not at all for none', async () => {
    let writes = 0;
    const counting: Disk = {
      ...nodeDisk,
      replace: (path, content) => {
        writes += 1;
        return nodeDisk.replace(path, content);
      },
    };
    const { index } = await open(folder(), counting);
    const commits = Array.from({ length: 200 }, (_, at) => {
      index.put(`dvo-${at}`, record('claimed'));
      return index.commit();
    });
    await Promise.all(commits);
    expect(writes).toBe(1);
    index.put('dvo-0', record('claimed', { updatedAt: 5 }));
    await index.commit();
    expect(writes).toBe(1);
  });

  it('saves by itself what nobody waits for', async () => {
    const stateDir = folder();
    const { index } = await open(stateDir);
    index.put('dvo-a', record('claimed'));
    await until(async () =>
      asText((await nodeDisk.read(indexPath(stateDir))) ?? new Uint8Array()).includes('dvo-a'),
    );
  });

  it.each([
    ['nothing', ''],
    ['a cut', '{"version":1,"outpostId":"outpost-1","acceptorId":"me","sessions":{"dvo-a":{"sess'],
    ['another shape', '[]'],
    ['NULs', '\0'.repeat(100)],
    ['no JSON', 'hello'],
  ])('T2: sets aside an index that is damaged by %s, byte for byte', async (_, content) => {
    const stateDir = folder();
    await writeFile(indexPath(stateDir), content);
    const { index, origin } = await open(stateDir);
    expect(origin).toBe('rebuilding');
    expect(index.size).toBe(0);
    const [kept] = (await readdir(stateDir)).filter((name) => name.includes('damaged'));
    expect(await readFile(join(stateDir, kept ?? ''), 'utf8')).toBe(content);
  });

  it('T2: keeps the good records beside a bad one', async () => {
    const stateDir = folder();
    const sessions = { 'dvo-good': record('serving'), 'dvo-bad': { stage: 'dancing' } };
    await writeFile(indexPath(stateDir), JSON.stringify({ version: 1, ...OWNER, sessions, failures: {} }));
    const { index, origin } = await open(stateDir);
    expect(origin).toBe('rebuilding');
    expect(index.get('dvo-good')).toEqual(record('serving'));
    expect((await readdir(stateDir)).some((name) => name.includes('damaged'))).toBe(true);
    // A kill before the first change must not cost them.
    await until(async () => (await nodeDisk.read(indexPath(stateDir))) !== undefined);
    expect((await open(stateDir)).index.get('dvo-good')).toEqual(record('serving'));
  });

  it('T2: whatever bytes the file holds, none of them is lost', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const stateDir = folder();
        await writeFile(indexPath(stateDir), bytes);
        const { origin } = await open(stateDir);
        const files = await readdir(stateDir);
        const kept = files.find((name) => name.includes('damaged')) ?? 'sandbox_index.json';
        expect(origin).toBe('rebuilding');
        expect(new Uint8Array(await readFile(join(stateDir, kept)))).toEqual(bytes);
      }),
      { numRuns: 50 },
    );
  });

  it('refuses the index of another outpost, acceptor or version, and leaves it alone', async () => {
    for (const [key, value, word] of [
      ['outpostId', 'other', 'OUTPOST_ID'],
      ['acceptorId', 'other', 'ACCEPTOR_ID'],
      ['version', 2, 'version 2'],
    ] as const) {
      const stateDir = folder();
      const content = JSON.stringify({ version: 1, ...OWNER, sessions: {}, [key]: value });
      await writeFile(indexPath(stateDir), content);
      await expect(open(stateDir)).rejects.toThrow(word);
      expect(await readFile(indexPath(stateDir), 'utf8')).toBe(content);
    }
  });

  it.skipIf(process.getuid?.() !== 0)(
    'T1: on a full disk the old index stays whole, and saving recovers by itself',
    async () => {
      const stateDir = folder();
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', stateDir]);
      undo.push(() => execFileSync('umount', [stateDir]));
      const { index } = await open(stateDir);
      index.put('dvo-a', record('serving'));
      await index.commit();
      const before = await readFile(indexPath(stateDir), 'utf8');
      const filler = join(stateDir, 'filler');
      expect(() => writeFileSync(filler, Buffer.alloc(2_000_000))).toThrow('ENOSPC');
      index.put(
        'dvo-b',
        record('serving', { lastError: { at: 1, step: 'x', message: 'y'.repeat(200_000) } }),
      );
      await expect(index.commit()).rejects.toThrow('ENOSPC');
      expect(index.trouble).toContain('ENOSPC');
      expect(await readFile(indexPath(stateDir), 'utf8')).toBe(before);
      rmSync(filler);
      await until(() => index.trouble === undefined, { withinMs: 10_000 });
      expect((await open(stateDir)).index.get('dvo-b')?.stage).toBe('serving');
    },
  );

  it('T1: a writer killed at any moment leaves a whole file', async () => {
    const stateDir = folder();
    const writer = fileURLToPath(new URL('./endless-writer.ts', import.meta.url));
    for (let round = 0; round < 5; round += 1) {
      const child = spawn(process.execPath, [writer, stateDir], { stdio: ['ignore', 'pipe', 'inherit'] });
      let writes = 0;
      child.stdout.on('data', (chunk: Buffer) => (writes += chunk.byteLength));
      await until(() => writes > round * 3);
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('exit', resolve));
      const { index, origin } = await open(stateDir);
      expect(origin).toBe('read');
      expect(index.size).toBe(500);
    }
    await removeTemporaries(stateDir);
    expect((await readdir(stateDir)).filter((name) => name.endsWith('tmp'))).toEqual([]);
  });
});

describe('identity and cursor', () => {
  it('makes an acceptor id once and keeps it', async () => {
    const stateDir = folder();
    const made = await acceptorId(stateDir, nodeDisk, systemRandom, undefined);
    expect(await acceptorId(stateDir, nodeDisk, systemRandom, undefined)).toBe(made);
    expect(await acceptorId(stateDir, nodeDisk, systemRandom, 'configured')).toBe('configured');
  });

  it('does not make a new acceptor id over a damaged one: it would strand sessions', async () => {
    const stateDir = folder();
    await writeFile(join(stateDir, 'acceptor_id'), '\0\0');
    await expect(acceptorId(stateDir, nodeDisk, systemRandom, undefined)).rejects.toThrow('ACCEPTOR_ID');
  });

  it('Q1: gives a cursor back only to the queue that it came from', async () => {
    const stateDir = folder();
    const queue = { outpostId: 'o', apiUrl: 'https://a' };
    const store = cursorStore(stateDir, nodeDisk, queue);
    expect(await store.load()).toBeUndefined();
    await store.save('c7');
    expect(await store.load()).toBe('c7');
    expect(await cursorStore(stateDir, nodeDisk, { ...queue, outpostId: 'p' }).load()).toBeUndefined();
    expect(await cursorStore(stateDir, nodeDisk, { ...queue, apiUrl: 'https://b' }).load()).toBeUndefined();
    await writeFile(join(stateDir, 'watch_cursor.json'), '{');
    expect(await store.load()).toBeUndefined();
  });

  it('makes STATE_DIR private', async () => {
    const stateDir = join(folder(), 'deep', 'state');
    await openStateDir(stateDir, nodeDisk);
    expect(execFileSync('stat', ['-c', '%a', stateDir], { encoding: 'utf8' }).trim()).toBe('700');
  });
});

describe.skipIf(process.getuid?.() !== 0)('what root writes beside a daemon of another user', () => {
  it('belongs to that user', async () => {
    const stateDir = folder();
    const path = join(stateDir, 'file');
    chownSync(stateDir, 12_345, 12_346);
    await nodeDisk.replace(path, Buffer.from('new'));
    expect(statSync(path)).toMatchObject({ uid: 12_345, gid: 12_346 });
    chownSync(path, 54_321, 54_322);
    await nodeDisk.replace(path, Buffer.from('newer'));
    expect(statSync(path)).toMatchObject({ uid: 54_321, gid: 54_322 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });
});

describe('the lock', () => {
  const holder = fileURLToPath(new URL('./lock-holder.ts', import.meta.url));
  const hold = async (stateDir: string, command: string, ...args: string[]) => {
    const child = spawn(command, [...args, process.execPath, holder, stateDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    undo.push(() => void child.kill('SIGKILL'));
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await until(() => said.includes('locked'));
    return child;
  };

  it('D3, T3: is held while its process lives, and gone when it is killed', async () => {
    const stateDir = folder();
    const child = await hold(stateDir, 'env');
    await expect(lockStateDir(stateDir, nodeDisk, 0)).rejects.toThrow(`process ${child.pid}`);
    child.kill('SIGKILL');
    await new Promise((resolve) => child.once('exit', resolve));
    const lock = await lockStateDir(stateDir, nodeDisk, 0);
    lock.release();
  });

  it('T3: a note that names this very process, or a stranger, does not keep it from starting', async () => {
    const stateDir = folder();
    for (const pid of [process.pid, 1]) {
      await writeFile(join(stateDir, 'lock.json'), JSON.stringify({ pid, host: 'gone', since: 'then' }));
      (await lockStateDir(stateDir, nodeDisk, 0)).release();
    }
  });

  it.skipIf(process.getuid?.() !== 0)(
    'T3: holds across PID namespaces, where pids mean nothing',
    async () => {
      const stateDir = folder();
      const child = await hold(stateDir, 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc');
      await expect(lockStateDir(stateDir, nodeDisk, 0)).rejects.toThrow('another dvo');
      child.kill('SIGKILL');
      await until(async () => {
        try {
          (await lockStateDir(stateDir, nodeDisk, 0)).release();
          return true;
        } catch {
          return false;
        }
      });
    },
  );
});
