import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/lib/clock.ts';
import type { Call } from '../../../src/lib/deadline.ts';
import { Redactor } from '../../../src/lib/secret.ts';
import { OFFICIAL_IMAGE } from '../../../src/sandboxes/coreweave/create-options.ts';
import type { CoreweaveOptions } from '../../../src/sandboxes/coreweave/provider.ts';
import { stateOf } from '../../../src/sandboxes/coreweave/states.ts';
import type { CreateRequest, SandboxProvider } from '../../../src/sandboxes/provider.ts';
import { coreweaveProvider, SETTINGS } from '../../support/coreweave-provider.ts';
import { MemoryPlatform, MemorySdkError, statusError } from '../../support/memory-sdk.ts';
import { until } from '../../support/until.ts';

const call = (timeoutMs = 20_000): Call => ({ timeoutMs, signal: new AbortController().signal });

describe('the CoreWeave provider', () => {
  let platform: MemoryPlatform;
  let provider: SandboxProvider;

  const open = async (more: Partial<CoreweaveOptions> = {}): Promise<SandboxProvider> =>
    await coreweaveProvider(async () => platform.client(), more);

  beforeEach(async () => {
    platform = await MemoryPlatform.open();
    provider = await open();
  });

  afterEach(async () => {
    await provider.close();
    await platform.close();
  });

  async function running(request: Partial<CreateRequest> = {}): Promise<string> {
    const { id } = await provider.create({ tags: ['dvo-a'], ...request }, call());
    await until(async () => (await provider.get(id, call())).state === 'running');
    // A sandbox may run a moment before its main process has made its folder.
    await until(async () => (await sh(id, 'test -s /run/dvo/boot-id')).exitCode === 0);
    return id;
  }

  const asked = (): readonly unknown[] =>
    platform.calls.filter(({ method }) => method === 'create').map(({ request }) => request);

  const sh = async (id: string, script: string, stdin?: string) =>
    await provider.exec(
      id,
      { argv: ['sh', '-c', script], ...(stdin === undefined ? {} : { stdin }) },
      call(),
    );

  describe('asking for a sandbox', () => {
    it('S3: asks for image, size, lifetime, tags and an empty volume, and does not wait', async () => {
      provider = await open({ settings: { ...SETTINGS, tags: ['team-x'], runnerIds: ['r1'] } });
      await provider.create({ tags: ['dvo-a', 'dvo-outpost-b'] }, call());
      expect(asked()).toEqual([
        {
          argv: ['/bin/sh', '-c', expect.stringContaining('boot-id')],
          containerImage: OFFICIAL_IMAGE,
          resources: { cpu: '2', memory: '8Gi' },
          fileSystemSnapshot: { mountPath: '/workspace', size: '10Gi' },
          maxLifetimeSeconds: 3_600,
          tags: ['dvo-a', 'dvo-outpost-b', 'team-x'],
          runnerIds: ['r1'],
          waitUntilRunning: false,
        },
      ]);
      expect(provider.capabilities.lifetimeMs).toBe(3_600_000);
    });

    it('S5: passes references to secrets, not values', async () => {
      const secrets = [{ store: 's', name: 'n', envVar: 'E' }];
      provider = await open({ settings: { ...SETTINGS, secrets } });
      await provider.create({ tags: ['dvo-a'] }, call());
      expect(asked()).toMatchObject([{ secrets }]);
    });

    it('S6: limits egress to host names; none at all is nothing, not the platform’s default', async () => {
      await provider.create({ tags: ['dvo-a'], egress: ['a.example', '*.b.example'] }, call());
      await provider.create({ tags: ['dvo-a'], egress: [] }, call());
      provider = await open({ settings: { ...SETTINGS, noInternet: true } });
      await provider.create({ tags: ['dvo-a'], egress: ['a.example'] }, call());
      await provider.create({ tags: ['dvo-a'] }, call());
      expect(asked()).toMatchObject([
        { network: { egress: [{ dnsName: 'a.example' }, { dnsName: '*.b.example' }] } },
        { network: { denyEgress: true } },
        { network: { denyEgress: true } },
        { network: { denyEgress: true } },
      ]);
      expect(JSON.stringify(asked()[2])).not.toContain('a.example');
    });

    it('S6: an SDK without egress rules or templates is found out, and nothing is asked of it', async () => {
      platform.templates = false;
      provider = await open();
      expect(provider.capabilities.egressRules).toBe(false);
      const limited = provider.create({ tags: ['dvo-a'], egress: ['a.example'] }, call());
      await expect(limited).rejects.toMatchObject({ kind: 'unsupported' });
      await expect(open({ settings: { ...SETTINGS, templateId: 't1' } })).rejects.toMatchObject({
        code: 'config',
      });
      expect(asked()).toEqual([]);
    });

    it('S3: leaves a template’s container as it is, or replaces it whole', async () => {
      provider = await open({ settings: { ...SETTINGS, templateId: 't1' } });
      await provider.create({ tags: ['dvo-a'] }, call());
      await expect(provider.create({ tags: ['dvo-a'], restoreFrom: 'x' }, call())).rejects.toMatchObject({
        kind: 'unsupported',
      });
      provider = await open({ settings: { ...SETTINGS, templateId: 't1', image: 'own:1' } });
      await provider.create({ tags: ['dvo-a'] }, call());
      expect(asked()).toEqual([
        { templateId: 't1', tags: ['dvo-a'], maxLifetimeSeconds: 3_600, waitUntilRunning: false },
        {
          templateId: 't1',
          command: ['/bin/sh', '-c', expect.stringContaining('boot-id')],
          containerImage: 'own:1',
          resources: { cpu: '2', memory: '8Gi' },
          fileSystemSnapshot: { mountPath: '/workspace', size: '10Gi' },
          tags: ['dvo-a'],
          maxLifetimeSeconds: 3_600,
          waitUntilRunning: false,
        },
      ]);
    });

    it('S3: an image in a template’s place runs our main process, not a command of its own that ends', async () => {
      const client = platform.client();
      provider = await coreweaveProvider(
        async () => ({
          ...client,
          runFromTemplate: async (_, { command = ['true'], ...options }) =>
            await client.run(command, options),
        }),
        { settings: { ...SETTINGS, templateId: 't1', image: 'own:1' } },
      );
      const id = await running();
      await sh(id, 'echo line >> /run/dvo/session.log');
      const log = provider.logs(id, { follow: true }, new AbortController().signal)[Symbol.asyncIterator]();
      expect((await log.next()).value).toBe('line');
      expect((await provider.get(id, call())).state).toBe('running');
    });

    it.each(['UNAVAILABLE', 'DEADLINE_EXCEEDED', 'CANCELLED'])(
      'P1: a create answered %s is unclear, asked once, and found by its tag although lists lag',
      async (status) => {
        platform.listLagMs = 200;
        platform.fail({ method: 'create', when: 'after', error: statusError(status) });
        await expect(provider.create({ tags: ['dvo-a'] }, call())).rejects.toMatchObject({
          kind: 'ambiguous',
        });
        const find = async () => await provider.list({ tags: ['dvo-a'], include: 'active' }, call());
        expect(await find()).toEqual([]);
        await until(async () => (await find()).length === 1);
        expect(asked()).toHaveLength(1);
      },
    );

    it('P1, P5: a create that is never answered ends at its limit, and is found by its tag', async () => {
      platform.fail({ method: 'create', when: 'after', error: 'hang' });
      await expect(provider.create({ tags: ['dvo-a'] }, call(100))).rejects.toMatchObject({
        code: 'deadline',
      });
      expect(await provider.list({ tags: ['dvo-a'], include: 'active' }, call())).toHaveLength(1);
    });

    it('P4: every status of the platform is one of four, and only one of them is running', () => {
      const states = Object.fromEntries(
        [
          'pending',
          'creating',
          'running',
          'paused',
          'terminating',
          'completed',
          'failed',
          'terminated',
          'unspecified',
          'new',
        ].map((status) => [status, stateOf(status)]),
      );
      expect(states).toEqual({
        pending: 'starting',
        creating: 'starting',
        running: 'running',
        paused: 'ending',
        terminating: 'ending',
        completed: 'ended',
        failed: 'ended',
        terminated: 'ended',
        unspecified: 'ended',
        new: 'ending',
      });
    });

    it('P4, S6: says why a sandbox ended, without anything secret', async () => {
      const redactor = new Redactor();
      redactor.add('secret-token');
      provider = await open({ redactor });
      const id = await running();
      await platform.become(id, 'failed', 'lifetime over, secret-token');
      expect(await provider.get(id, call())).toMatchObject({
        state: 'ended',
        reason: 'failed: lifetime over, [redacted]',
      });
    });
  });

  describe('a platform that hangs', () => {
    it('P5: every call ends at its limit, others go on meanwhile, and a new client is made', async () => {
      let made = 0;
      let rebuilt = 0;
      provider = await coreweaveProvider(
        async () => {
          made += 1;
          return platform.client();
        },
        { observer: { call: () => undefined, rebuilt: () => (rebuilt += 1) } },
      );
      const id = await running();
      platform.fail({ method: 'list', when: 'before', error: 'hang', count: 3 });
      const hanging = Array.from({ length: 3 }, () =>
        provider.list({ tags: [], include: 'active' }, call(300)),
      );
      expect((await sh(id, 'echo on')).stdout).toBe('on\n');
      for (const one of await Promise.allSettled(hanging))
        expect(one).toMatchObject({ reason: { code: 'deadline' } });
      expect(await provider.list({ tags: ['dvo-a'], include: 'active' }, call())).toHaveLength(1);
      expect([made, rebuilt]).toEqual([2, 1]);
    });

    it('P5: calls beyond the bound wait for their turn, and hanging ones give it back', async () => {
      platform.fail({ method: 'get', when: 'before', error: 'hang', count: 64 });
      const many = Array.from({ length: 64 }, () => provider.get('x', call(400)));
      const next = provider.list({ tags: ['x'], include: 'active' }, call());
      const late = provider.create({ tags: ['dvo-never'] }, call(100));
      await expect(late).rejects.toMatchObject({ code: 'deadline' });
      expect((await Promise.allSettled(many)).every((one) => one.status === 'rejected')).toBe(true);
      expect(await next).toEqual([]);
      // Its time was over before its turn came.
      expect(asked()).toEqual([]);
    });

    it('T4: refused credentials are read again, without a storm of clients', async () => {
      let made = 0;
      provider = await coreweaveProvider(async () => {
        made += 1;
        return platform.client();
      });
      platform.fail({ method: 'list', when: 'before', error: statusError('UNAUTHENTICATED'), count: 5 });
      const list = async () => await provider.list({ tags: [], include: 'active' }, call());
      for (let n = 0; n < 5; n += 1) await expect(list()).rejects.toMatchObject({ kind: 'unauthenticated' });
      await list();
      expect(made).toBe(2);
    });
  });

  describe('inside a sandbox', () => {
    it('T8: what goes by standard input is in no argument and no recorded request', async () => {
      const id = await running();
      const { stdout } = await sh(
        id,
        'IFS= read -r token; printf %s "$token" | wc -c',
        'secret-connect-token\n',
      );
      expect(stdout.trim()).toBe('20');
      expect(JSON.stringify(platform.calls)).not.toContain('secret-connect-token');
    });

    it('a stream that fails after it was started is an error of its call, and of nothing else', async () => {
      const id = await running();
      // Whatever comes first: the handle, the stream or the command itself. It is awaited from the first moment.
      const command = provider.exec(id, { argv: ['cat'], stdin: 'x'.repeat(1_000_000) }, call()).then(
        (result) => (result.exitCode === 137 || result.exitCode === 0 ? 'gone' : result),
        (error: { kind: string }) => error.kind,
      );
      await platform.become(id, 'terminated');
      expect(await command).toMatch(/gone|ambiguous/);
    });

    it('says that an ended sandbox is gone, and of one that is starting only that it cannot be used yet', async () => {
      platform.bootMs = 300;
      const { id } = await provider.create({ tags: ['dvo-a'] }, call());
      await expect(sh(id, 'true')).rejects.toMatchObject({ kind: 'ambiguous' });
      for (const status of ['paused', 'completed', 'failed', 'terminating', 'unspecified']) {
        await platform.become(id, status);
        await expect(sh(id, 'true')).rejects.toMatchObject({ kind: 'gone' });
        await expect(provider.snapshot(id, call())).rejects.toMatchObject({ kind: 'gone' });
      }
    });

    it('R4: a container that restarts in place has a new boot marker, an empty disk and the old volume', async () => {
      const id = await running();
      const boot = async () => await sh(id, 'cat /run/dvo/boot-id').then(({ stdout }) => stdout.trim());
      await sh(id, 'echo kept > /workspace/file; echo lost > /run/dvo/file');
      const before = await boot();
      await platform.restartContainer(id);
      await until(async () => ![before, ''].includes(await boot()));
      expect((await sh(id, 'cat /workspace/file; test -e /run/dvo/file || echo gone')).stdout).toBe(
        'kept\ngone\n',
      );
      expect((await provider.get(id, call())).state).toBe('running');
    });

    it('R7: a write that breaks leaves the file as it was', async () => {
      const id = await running();
      await provider.writeFile(id, '/workspace/file', Buffer.from('old'), call());
      for (const method of ['writeFile', 'exec']) {
        platform.fail({ method, when: 'before', error: statusError('UNAVAILABLE') });
        const write = provider.writeFile(id, '/workspace/file', Buffer.from('new'), call());
        await expect(write).rejects.toMatchObject({ kind: 'ambiguous' });
        expect(Buffer.from(await provider.readFile(id, '/workspace/file', call())).toString()).toBe('old');
      }
    });

    it('R7: a file that arrives short is not put in its place', async () => {
      const id = await running();
      const folder = await mkdtemp(join(tmpdir(), 'dvo-upload-'));
      await writeFile(join(folder, 'big'), 'x'.repeat(100_000));
      const uploading = provider.upload(id, join(folder, 'big'), '/workspace/bin/big', call());
      // Cut while it lies beside its place.
      await until(() => platform.calls.some(({ method }) => method === 'writeStream'));
      await uploading;
      expect((await readFile(join(platform.volume(id), 'bin/big'))).byteLength).toBe(100_000);
      await rm(folder, { recursive: true });
    });

    it('T10: odd paths are paths', async () => {
      const id = await running();
      const path = '/workspace/it\'s "odd" $(touch x)/-n; `id`';
      await provider.writeFile(id, path, Buffer.from('fine'), call());
      expect(Buffer.from(await provider.readFile(id, path, call())).toString()).toBe('fine');
      expect((await sh(id, 'ls /workspace')).stdout).toBe('it\'s "odd" $(touch x)\n');
    });
  });

  describe('archives', () => {
    it('S2: an archive that ends FAILED says so with its reason, and the sandbox is still there', async () => {
      const id = await running();
      platform.nextSnapshotFails = 'CWSANDBOX_FSS_CREATE_FAILED';
      await expect(provider.snapshot(id, call())).rejects.toMatchObject({
        kind: 'archive-failed',
        reason: 'CWSANDBOX_FSS_CREATE_FAILED',
      });
      expect(await provider.snapshots(id, call())).toMatchObject([{ state: 'failed' }]);
      expect((await provider.get(id, call())).state).toBe('running');
    });

    it('S2: an archive that is late is unknown, and found by its source once it is ready', async () => {
      const id = await running();
      platform.snapshotMs = 300;
      await expect(provider.snapshot(id, call(100))).rejects.toMatchObject({ code: 'deadline' });
      expect(await provider.snapshots(id, call())).toMatchObject([{ state: 'creating' }]);
      await until(async () => (await provider.snapshots(id, call()))[0]?.state === 'ready');
      expect(platform.snapshots.size).toBe(1);
    });

    it('L7: an organization without archives is told from a failure, and has none to list', async () => {
      const id = await running();
      platform.archivesSupported = false;
      await expect(provider.snapshot(id, call())).rejects.toMatchObject({ kind: 'unsupported' });
      expect(await provider.snapshots(id, call())).toEqual([]);
    });

    it('S3: a restore is told from a create by what is asked for, and by its errors', async () => {
      await expect(provider.create({ tags: ['dvo-a'], restoreFrom: 'gone' }, call())).rejects.toMatchObject({
        kind: 'not-found',
        reason: 'snapshot',
      });
      platform.fail({
        method: 'create',
        when: 'before',
        error: statusError('FAILED_PRECONDITION', { reason: 'CWSANDBOX_FSS_NOT_READY', retryDelayMs: 2_000 }),
      });
      await expect(provider.create({ tags: ['dvo-a'], restoreFrom: 'young' }, call())).rejects.toMatchObject({
        kind: 'exhausted',
        retryAfterMs: 2_000,
      });
    });

    it('S5: deleting what is gone already is no failure, however the platform puts it', async () => {
      const id = await running();
      for (const error of [statusError('NOT_FOUND'), statusError('FAILED_PRECONDITION')]) {
        platform.fail({ method: 'delete', when: 'before', error });
        await provider.destroy(id, call());
      }
      platform.fail({ method: 'deleteSnapshot', when: 'before', error: statusError('NOT_FOUND') });
      await provider.deleteSnapshot('x', call());
      platform.fail({ method: 'delete', when: 'before', error: new MemorySdkError('unavailable', 'x') });
      await expect(provider.destroy(id, call())).rejects.toMatchObject({ kind: 'ambiguous' });
    });
  });

  describe('the log', () => {
    const follow = (id: string) => {
      const lines: string[] = [];
      const stop = new AbortController();
      const done = (async () => {
        for await (const line of provider.logs(id, { follow: true }, stop.signal)) lines.push(line);
      })();
      return { lines, stop, done };
    };
    const write = async (id: string, text: string): Promise<void> => {
      await sh(id, `printf '%s\\n' ${text} >> /run/dvo/session.log`);
    };

    it.each(['STREAM_INTERRUPTED', 'REPLAY_GAP', 'SESSION_NOT_FOUND', 'UNAVAILABLE'])(
      'R8: goes on after %s, and loses no line',
      async (code) => {
        const id = await running();
        platform.logFault = { afterEntries: 2, code };
        const log = follow(id);
        await write(id, 'one two three');
        await until(() => log.lines.includes('three'));
        expect([...new Set(log.lines)]).toEqual(['one', 'two', 'three']);
        log.stop.abort();
        await log.done;
      },
    );

    it('R8: gives up where the platform says that it is of no use', async () => {
      const id = await running();
      platform.logFault = { afterEntries: 0, code: 'INVALID_RESUME_OFFSET' };
      await expect(follow(id).done).rejects.toMatchObject({ kind: 'ambiguous' });
      await expect(follow('no-such-id').done).resolves.toBeUndefined();
    });

    it('R8: follows a container that restarts in place into its new log, and ends with the sandbox', async () => {
      const id = await running();
      const log = follow(id);
      await write(id, 'before');
      await until(() => log.lines.includes('before'));
      await platform.restartContainer(id);
      await until(async () => (await sh(id, 'test -s /run/dvo/boot-id')).exitCode === 0);
      await write(id, 'after');
      await until(() => log.lines.includes('after'));
      await platform.become(id, 'terminated');
      await log.done;
      expect(log.lines).toEqual(['before', 'after']);
    });

    it('R8: closing the provider ends what it follows', async () => {
      const id = await running();
      const log = follow(id);
      await until(() => platform.calls.some(({ method }) => method === 'logs'));
      await provider.close();
      await log.done;
    });
  });

  it('counts every call, with how it ended', async () => {
    const seen: string[] = [];
    provider = await open({
      clock: systemClock,
      observer: {
        call: (operation, outcome) => seen.push(`${operation} ${outcome}`),
        rebuilt: () => undefined,
      },
    });
    await provider.list({ tags: [], include: 'all' }, call());
    await provider.get('x', call()).catch(() => undefined);
    const aborted = { timeoutMs: 1_000, signal: AbortSignal.abort() };
    await provider.get('x', aborted).catch(() => undefined);
    expect(seen).toEqual(['sandbox ok', 'sandbox not-found', 'sandbox aborted']);
  });
});
