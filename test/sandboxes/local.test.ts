import { spawn } from 'node:child_process';
import { watch } from 'node:fs';
import { appendFile, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import type { Call } from '../../src/lib/deadline.ts';
import { followLog } from '../../src/sandboxes/local/log-file.ts';
import { kill, processesOf, startTimeOf } from '../../src/sandboxes/local/processes.ts';
import { createLocalProvider } from '../../src/sandboxes/local/provider.ts';
import { run } from '../../src/sandboxes/local/run.ts';
import { until } from '../support/until.ts';

/** Every name that the folder had while `work` went on. */
async function watchNames(folder: string, work: () => Promise<unknown>): Promise<readonly string[]> {
  const names = new Set<string>();
  const watcher = watch(folder, (_, name) => names.add(String(name)));
  await work();
  await until(() => [...names].some((name) => name.endsWith('.json')));
  watcher.close();
  return [...names];
}

const call = (): Call => ({ timeoutMs: 20_000, signal: new AbortController().signal });

describe('the local provider', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'dvo-local-'));
  });
  afterEach(async () => {
    await kill(await processesOf(root));
    await rm(root, { recursive: true, force: true, maxRetries: 5 });
  });
  const open = () =>
    createLocalProvider({ root, clock: systemClock, random: systemRandom, path: process.env['PATH'] ?? '' });

  it('P2: a sandbox that was never finished is none, and is cleared away when it is old', async () => {
    await open();
    for (const id of ['local-aa', 'local-bb'])
      await mkdir(join(root, 'making', id, 'volume'), { recursive: true });
    await utimes(join(root, 'making', 'local-aa'), 1, 1);
    const again = await open();
    expect(await again.list({ tags: [], include: 'all' }, call())).toEqual([]);
    expect(await readdir(join(root, 'making'))).toEqual(['local-bb']);
  });

  it('a record of an archive that was never finished leaves nothing where archives are, and is cleared away', async () => {
    const provider = await open();
    const { id } = await provider.create({ tags: [] }, call());
    const names = await watchNames(join(root, 'snapshots'), () => provider.snapshot(id, call()));
    expect(names.filter((name) => !/^snap-\w+\.(json|tar|tar\.part)$/.test(name))).toEqual([]);
    await writeFile(join(root, 'making', 'snap-1.json.cut'), '{"id":');
    await utimes(join(root, 'making', 'snap-1.json.cut'), 1, 1);
    await open();
    expect(await readdir(join(root, 'making'))).toEqual([]);
  });

  it('finishes a destroy that was cut off by a kill', async () => {
    const provider = await open();
    const { id } = await provider.create({ tags: ['dvo-a'] }, call());
    const file = join(root, 'sandboxes', id, 'sandbox.json');
    await writeFile(file, JSON.stringify({ id, tags: ['dvo-a'], state: 'ending', startedAt: Date.now() }));
    const again = await open();
    expect(await again.list({ tags: ['dvo-a'], include: 'active' }, call())).toEqual([]);
    expect(await again.get(id, call())).toMatchObject({ state: 'ended' });
  });

  it('an archive whose writer died is failed, and cannot be restored', async () => {
    const provider = await open();
    const writer = { pid: 2 ** 22 - 1, startTime: '1' };
    const record = { id: 'snap-1', state: 'creating', sourceSandboxId: 'local-aa', createdAt: 1, writer };
    await writeFile(join(root, 'snapshots', 'snap-1.json'), JSON.stringify(record));
    expect(await provider.getSnapshot('snap-1', call())).toMatchObject({ state: 'failed' });
    const create = provider.create({ tags: [], restoreFrom: 'snap-1' }, call());
    await expect(create).rejects.toMatchObject({ kind: 'archive-failed' });
  });

  it('P5: a command whose caller has given up before it began is ended', async () => {
    const surroundings = { cwd: root, env: { PATH: process.env['PATH'] ?? '' } };
    const options = { ...surroundings, clock: systemClock, signal: AbortSignal.abort() };
    expect(await run({ argv: ['sleep', '60'] }, options)).toMatchObject({ exitCode: 137 });
  });

  it('R3: ends what its children left behind, and no stranger', async () => {
    const provider = await open();
    const { id } = await provider.create({ tags: [] }, call());
    const stranger = spawn('sleep', ['30'], { stdio: 'ignore' });
    try {
      await provider.exec(
        id,
        { argv: ['bash', '-c', '(setsid sleep 31 &) </dev/null >/dev/null 2>&1'] },
        call(),
      );
      await until(async () => (await processesOf(join(root, 'sandboxes', id))).length === 1);
      await provider.destroy(id, call());
      expect(await processesOf(root)).toEqual([]);
      expect(await startTimeOf(stranger.pid ?? 0)).toBeDefined();
      // The number alone names nobody.
      await kill([{ pid: stranger.pid ?? 0, startTime: 'another' }]);
      expect(await startTimeOf(stranger.pid ?? 0)).toBeDefined();
    } finally {
      stranger.kill('SIGKILL');
    }
  });

  it('R8: follows a log through a cut character and a file that begins anew', async () => {
    const path = join(root, 'log');
    const snow = Buffer.from('雪\n');
    await writeFile(path, snow.subarray(0, 2));
    const stop = new AbortController();
    const lines: string[] = [];
    const options = { clock: systemClock, follow: true, alive: async () => true, signal: stop.signal };
    const reading = (async () => {
      for await (const line of followLog(path, options)) lines.push(line);
    })();
    await new Promise((resolve) => setImmediate(resolve));
    await appendFile(path, snow.subarray(2));
    await until(() => lines.length === 1);
    await writeFile(path, 'a\n');
    await until(() => lines.length === 2);
    expect(lines).toEqual(['雪', 'a']);
    stop.abort();
    await reading;
  });
});
