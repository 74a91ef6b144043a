/** The motor on a real queue (the emulator) and a platform that does what a test says. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import type { Motor } from '../../src/orchestrator/motor.ts';
import type { Marker, RemoteControl } from '../../src/remote/port.ts';
import { acceptorTag, outpostTag, sandboxName } from '../../src/sandboxes/names.ts';
import { ProviderError, type SandboxInfo, type SandboxProvider } from '../../src/sandboxes/provider.ts';
import type { Rules } from '../../src/session/rules.ts';
import { record } from '../session/view.ts';
import { nullWorld, startMotor, type NullWorld } from '../support/null-world.ts';
import { until } from '../support/until.ts';

const FAST: Partial<Rules> = {
  confirmEveryMs: 50,
  probeEveryMs: 100,
  bootPollMs: 20,
  bootTimeoutMs: 300,
  relaunchFirstMs: 20,
};

describe('the motor', () => {
  let emulator: Emulator;
  let world: NullWorld;
  let stateDir: string;
  let motor: Motor | undefined;

  beforeEach(async () => {
    emulator = await startEmulator({
      clock: systemClock,
      random: systemRandom,
      node: process.execPath,
      knobs: { suspendedVisibleMs: 50, tombstoneMs: 50 },
    });
    world = nullWorld();
    stateDir = await mkdtemp(join(tmpdir(), 'dvo-motor-'));
  });
  afterEach(async () => {
    await motor?.stop('detach', 1_000);
    motor = undefined;
    await emulator.stop();
    await rm(stateDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function start(
    overrides: Partial<SandboxProvider> = {},
    maxSessions = 5,
    remote: Partial<RemoteControl> = {},
    rules: Partial<Rules> = {},
  ): Promise<Motor> {
    motor = await startMotor({
      url: emulator.url,
      outpostId: emulator.outpostId,
      token: emulator.knobs.token,
      stateDir,
      maxSessions,
      world: { provider: { ...world.provider, ...overrides }, remote: { ...world.remote, ...remote } },
      settings: { sweepEveryMs: 50, strayGraceMs: 300 },
      rules: { ...FAST, ...rules },
    });
    return motor;
  }

  const nameOf = (sessionId: string): string => sandboxName(emulator.outpostId, sessionId);
  const stageOf = (sessionId: string) => motor?.records.get(nameOf(sessionId))?.stage;
  const serving = (sessionId: string) =>
    until(() => stageOf(sessionId) === 'serving', { what: `${sessionId} is served` });

  /** A sandbox that nobody's record knows. */
  function stray(id: string, sessionId: string, marker?: Partial<Marker>): SandboxInfo {
    const info: SandboxInfo = { id, state: 'running', paths: { volume: '/workspace', run: '/run/dvo' } };
    const tags = [nameOf(sessionId), outpostTag(emulator.outpostId), acceptorTag('bench')];
    world.sandboxes.set(id, { info, tags });
    const whose = { version: 1, sessionId, outpostId: emulator.outpostId, acceptorId: 'bench' } as const;
    if (marker !== undefined)
      world.markers.set(id, { ...whose, name: nameOf(sessionId), sandboxId: id, ...marker });
    return info;
  }

  it('C6: every slot comes free in the end, also when events come three times and out of order', async () => {
    emulator.knobs.watchCopies = 3;
    emulator.knobs.watchSwaps = true;
    await start({}, 3);
    const ids = Array.from({ length: 30 }, (_, at) => `devin-${String(at).padStart(2, '0')}`);
    for (const sessionId of ids) emulator.enqueue({ sessionId });
    for (const sessionId of ids) {
      await serving(sessionId);
      expect(motor?.gate.used).toBeLessThanOrEqual(3);
      emulator.terminate(sessionId);
    }
    await until(() => motor?.gate.used === 0 && world.sandboxes.size === 0);
    await until(() => motor?.records.size === 0);
  });

  it('P3: a session that was being given up when the daemon died cools down after the restart', async () => {
    const archive = { snapshotId: 'snap-1', takenAt: 1, sandboxId: 'null-1' };
    const dying = record('suspending', { sessionId: 'devin-poison', ending: 'give-up', archive });
    const sessions = { [nameOf('devin-poison')]: dying };
    const owner = { version: 1, outpostId: emulator.outpostId, acceptorId: 'bench' };
    await writeFile(join(stateDir, 'sandbox_index.json'), JSON.stringify({ ...owner, sessions }));
    emulator.enqueue({ sessionId: 'devin-poison' });
    emulator.steal('devin-poison', 'bench');
    // The record is looked at before the queue is known.
    emulator.fault({ route: 'list', kind: 'delay', ms: 300, count: 1 });
    const { records } = await start();
    await until(() => emulator.session('devin-poison')?.phase === 'pending', {
      what: 'its claim is given back',
    });
    await until(() => (records.failures(nameOf('devin-poison'))?.coolUntil ?? 0) > Date.now());
    // Admission has come round, and passed it over.
    emulator.enqueue({ sessionId: 'devin-next' });
    await serving('devin-next');
    expect(stageOf('devin-poison')).toBe('suspended');
    expect(world.sandboxes.size).toBe(1);
  });

  it('forgets the failures of sessions that have left the queue, and of no others', async () => {
    const { records } = await start();
    emulator.enqueue({ sessionId: 'devin-waits', platform: 'windows' });
    const history = { attempts: 2, coolUntil: 0, reason: 'x' };
    for (const sessionId of ['devin-gone', 'devin-waits'])
      records.putFailures(nameOf(sessionId), { sessionId, ...history });
    records.putFailures(nameOf('devin-cools'), { sessionId: 'devin-cools', ...history, coolUntil: 1e14 });
    await until(() => records.failures(nameOf('devin-gone')) === undefined);
    expect([...records.histories()].map(([, { sessionId }]) => sessionId)).toEqual([
      'devin-waits',
      'devin-cools',
    ]);
  });

  it('J1: destroys nothing while the queue cannot be read whole', async () => {
    stray('stray-1', 'devin-x');
    emulator.fault({ route: 'list', kind: 'status', status: 503, count: 0 });
    await start();
    await until(() => (emulator.state().requests['list'] ?? 0) >= 2);
    expect(world.sandboxes.has('stray-1')).toBe(true);
    emulator.faults.clear();
    await until(() => !world.sandboxes.has('stray-1'), { what: 'the unmarked stray goes after its grace' });
  });

  it('J1: an empty list of the platform is no reason to believe that sandboxes are gone', async () => {
    let blind = false;
    const list: SandboxProvider['list'] = async (query, call) =>
      blind ? [] : await world.provider.list(query, call);
    await start({ list });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    blind = true;
    const before = world.probes();
    await until(() => world.probes() > before + 3);
    expect(stageOf('devin-a')).toBe('serving');
    expect(world.sandboxes.size).toBe(1);
  });

  it('J1: stops with an alarm when most sandboxes would go', async () => {
    for (let at = 0; at < 12; at += 1) stray(`stray-${at}`, `devin-${at}`);
    await start();
    emulator.enqueue({ sessionId: 'devin-live' });
    await serving('devin-live');
    const sweeps = world.probes();
    await until(() => world.probes() > sweeps + 8);
    expect(world.sandboxes.size).toBe(13);
  });

  it('J2: a sandbox that takes long to be made survives the sweeps', async () => {
    const create: SandboxProvider['create'] = async (request, call) => {
      const info = await world.provider.create(request, call);
      await systemClock.sleep(800);
      return info;
    };
    await start({ create });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect([...world.sandboxes.keys()]).toEqual(['null-1']);
  });

  it('J3, D1: takes up a marked sandbox that no record knows, and ends it with its session', async () => {
    stray('stray-1', 'devin-a', {});
    await start();
    await until(() => motor?.records.get(nameOf('devin-a'))?.sandboxId === 'stray-1');
    // Its session is in no queue: it sleeps, so its work is archived and the sandbox goes.
    await until(() => stageOf('devin-a') === 'suspended');
    expect(motor?.records.get(nameOf('devin-a'))?.archive?.snapshotId).toBe('snap-stray-1');
    expect(world.sandboxes.size).toBe(0);
  });

  it('J3, S7: one that is taken up is known to end with its lifetime', async () => {
    const startedAt = Date.now() - 60_000;
    const info = { ...stray('stray-1', 'devin-a', {}), startedAt };
    world.sandboxes.set('stray-1', { info, tags: world.sandboxes.get('stray-1')?.tags ?? [] });
    emulator.enqueue({ sessionId: 'devin-a' });
    await start({ capabilities: { egressRules: false, listLagMs: 0, lifetimeMs: 7_200_000 } });
    await until(() => motor?.records.get(nameOf('devin-a'))?.lifetimeEndsAt === startedAt + 7_200_000);
    await serving('devin-a');
  });

  it('C4: leaves the sandboxes of another acceptor alone', async () => {
    stray('stray-1', 'devin-a', { acceptorId: 'another' });
    await start();
    emulator.enqueue({ sessionId: 'devin-b' });
    await serving('devin-b');
    const before = world.probes();
    await until(() => world.probes() > before + 8);
    expect(world.sandboxes.has('stray-1')).toBe(true);
  });

  it('C5: admits nothing until the platform’s list works', async () => {
    let broken = true;
    let lists = 0;
    const list: SandboxProvider['list'] = async (query, call) => {
      lists += 1;
      if (broken) throw new ProviderError('ambiguous', 'unavailable');
      return await world.provider.list(query, call);
    };
    await start({ list });
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => motor?.queue.synced === true && lists >= 2);
    expect(emulator.session('devin-a')?.seen.claims).toBe(0);
    broken = false;
    await serving('devin-a');
  });

  it('P1: a create that fails ambiguously is found again, and made only once', async () => {
    let creates = 0;
    const create: SandboxProvider['create'] = async (request, call) => {
      creates += 1;
      const info = await world.provider.create(request, call);
      if (creates === 1) throw new ProviderError('ambiguous', 'the answer was lost');
      return info;
    };
    await start({ create });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect(creates).toBe(1);
    expect(world.sandboxes.size).toBe(1);
  });

  it('P4: destroys a sandbox that never comes up, and tries anew; the bad one is not left', async () => {
    const get: SandboxProvider['get'] = async (id, call) => {
      const info = await world.provider.get(id, call);
      return id === 'null-1' ? { ...info, state: 'starting' } : info;
    };
    const create: SandboxProvider['create'] = async (request, call) => {
      const info = await world.provider.create(request, call);
      return info.id === 'null-1' ? { ...info, state: 'starting' } : info;
    };
    await start({ get, create });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect([...world.sandboxes.keys()]).toEqual(['null-2']);
  });

  it('P5: a platform that hangs for one session does not keep the others waiting', async () => {
    const create: SandboxProvider['create'] = async (request, call) => {
      if (request.tags.includes(nameOf('devin-stuck'))) return await new Promise<never>(() => undefined);
      return await world.provider.create(request, call);
    };
    await start({ create });
    emulator.enqueue({ sessionId: 'devin-stuck' });
    for (let at = 0; at < 4; at += 1) emulator.enqueue({ sessionId: `devin-${at}` });
    for (let at = 0; at < 4; at += 1) await serving(`devin-${at}`);
  });

  it('W4: a terminate that lands during the create destroys the sandbox when the create returns', async () => {
    const create: SandboxProvider['create'] = async (request, call) => {
      const info = await world.provider.create(request, call);
      emulator.terminate('devin-a');
      await systemClock.sleep(200);
      return info;
    };
    await start({ create });
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => emulator.session('devin-a')?.status === 'terminated');
    await until(() => world.sandboxes.size === 0 && motor?.records.size === 0);
  });

  it('S2, S3: a failed archive keeps the sandbox, and the older archive', async () => {
    let fail = true;
    const snapshot: SandboxProvider['snapshot'] = async (id, call) => {
      if (fail) throw new ProviderError('archive-failed', 'no room');
      return await world.provider.snapshot(id, call);
    };
    await start({ snapshot });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    emulator.sleep('devin-a');
    await until(() => motor?.records.get(nameOf('devin-a'))?.archiving?.failures === 1);
    expect(world.sandboxes.size).toBe(1);
    fail = false;
    await until(() => stageOf('devin-a') === 'suspended', { withinMs: 20_000 });
    expect(world.sandboxes.size).toBe(0);
  });

  it('S2: an archive that outlives our limit is waited for, never made twice', async () => {
    let asked = 0;
    const snapshot: SandboxProvider['snapshot'] = async () => {
      asked += 1;
      throw new ProviderError('ambiguous', 'no answer in time');
    };
    let ready = false;
    const snapshots: SandboxProvider['snapshots'] = async (id) =>
      asked === 0 ? [] : [{ id: 'late', state: ready ? 'ready' : 'creating', sourceSandboxId: id }];
    await start({ snapshot, snapshots });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    emulator.sleep('devin-a');
    await until(() => asked === 1);
    ready = true;
    await until(() => stageOf('devin-a') === 'suspended', { withinMs: 20_000 });
    expect(asked).toBe(1);
    expect(motor?.records.get(nameOf('devin-a'))?.archive?.snapshotId).toBe('late');
  });

  it('L7: without archives the sandbox is kept, and the session wakes in it', async () => {
    const snapshot: SandboxProvider['snapshot'] = async () => {
      throw new ProviderError('unsupported', 'not enabled for this organization');
    };
    await start({ snapshot });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    emulator.sleep('devin-a');
    await until(() => stageOf('devin-a') === 'suspended');
    expect([...world.sandboxes.keys()]).toEqual(['null-1']);
    expect(motor?.gate.used).toBe(0);
    emulator.wake('devin-a');
    await serving('devin-a');
    expect([...world.sandboxes.keys()]).toEqual(['null-1']);
  });

  it('S6: goes on from nothing, and says so, when the platform ends a sandbox without an archive', async () => {
    await start();
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    world.sandboxes.delete('null-1');
    await until(
      () => motor?.records.get(nameOf('devin-a'))?.sandboxId === 'null-2' && stageOf('devin-a') === 'serving',
    );
  });

  it('P4: a sandbox that is lost while it is prepared is replaced, and nothing is held against the session', async () => {
    const prepare: RemoteControl['prepare'] = async (place, request, call) => {
      if (place.sandboxId === 'null-1') {
        world.sandboxes.delete('null-1');
        throw new ProviderError('not-found', 'no such sandbox', { reason: 'sandbox' });
      }
      return await world.remote.prepare(place, request, call);
    };
    const { records } = await start({}, 5, { prepare });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect(records.get(nameOf('devin-a'))).toMatchObject({ sandboxId: 'null-2', failures: 0, attempt: 1 });
  });

  it('P4: sandboxes that are lost at each launch end the attempt', async () => {
    const launch: RemoteControl['launch'] = async ({ sandboxId }) => {
      world.sandboxes.delete(sandboxId);
      throw new ProviderError('gone', 'it is not running any more');
    };
    let creates = 0;
    const create: SandboxProvider['create'] = async (request, call) => {
      creates += 1;
      return await world.provider.create(request, call);
    };
    const { records } = await start({ create }, 5, { launch }, { restartLimit: 3 });
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => (records.failures(nameOf('devin-a'))?.coolUntil ?? 0) > Date.now());
    await until(() => records.size === 0);
    expect(creates).toBe(4);
  });

  it('S6: archives in time although each look at the remote takes longer than the pace of looks', async () => {
    const probe: RemoteControl['probe'] = async (place, call) => {
      await systemClock.sleep(150);
      return await world.remote.probe(place, call);
    };
    const rules = { probeEveryMs: 100, checkpointEveryMs: 300 };
    const { records } = await start({}, 5, { probe }, rules);
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => records.get(nameOf('devin-a'))?.archive !== undefined);
    expect(stageOf('devin-a')).toBe('serving');
  });

  it('D1, S4: with a lost index the newest archive is restored, and the older one kept to the session’s end', async () => {
    const deleted: string[] = [];
    const restored: (string | undefined)[] = [];
    const ended: SandboxInfo = {
      id: 'null-0',
      state: 'ended',
      paths: { volume: '/workspace', run: '/run/dvo' },
    };
    const list: SandboxProvider['list'] = async (query, call) => {
      const active = await world.provider.list(query, call);
      return query.include === 'all' ? [...active, ended] : active;
    };
    const snapshots: SandboxProvider['snapshots'] = async (id) =>
      id !== 'null-0'
        ? []
        : [
            { id: 'snap-old', state: 'ready', sourceSandboxId: id, createdAt: 1_000 },
            { id: 'snap-new', state: 'ready', sourceSandboxId: id, createdAt: 2_000 },
          ];
    const create: SandboxProvider['create'] = async (request, call) => {
      restored.push(request.restoreFrom);
      return await world.provider.create(request, call);
    };
    const deleteSnapshot: SandboxProvider['deleteSnapshot'] = async (id) => void deleted.push(id);
    await start({ list, snapshots, create, deleteSnapshot });
    emulator.enqueue({ sessionId: 'devin-a', kind: 'resume' });
    await serving('devin-a');
    expect(restored).toEqual(['snap-new']);
    emulator.sleep('devin-a');
    await until(() => stageOf('devin-a') === 'suspended');
    await until(() => deleted.includes('snap-new'));
    expect(deleted).toEqual(['snap-new']);
    emulator.enqueue({ sessionId: 'devin-a', status: 'terminated' });
    await until(() => motor?.records.size === 0);
    expect(deleted).toContain('snap-old');
  });

  it('P4: sandboxes that are lost each time end the attempt', async () => {
    const prepare: RemoteControl['prepare'] = async ({ sandboxId }) => {
      world.sandboxes.delete(sandboxId);
      throw new ProviderError('not-found', 'no such sandbox', { reason: 'sandbox' });
    };
    let creates = 0;
    const create: SandboxProvider['create'] = async (request, call) => {
      creates += 1;
      return await world.provider.create(request, call);
    };
    const { records } = await start({ create }, 5, { prepare });
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => (records.failures(nameOf('devin-a'))?.coolUntil ?? 0) > Date.now());
    await until(() => records.size === 0);
    expect(creates).toBe(4);
  });

  it('Q8: a claim that is not answered rightly is tried again as the same attempt', async () => {
    const { records } = await start();
    emulator.fault({ route: 'claim', kind: 'html', status: 200, count: 2 });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect(records.failures(nameOf('devin-a'))?.attempts).toBe(1);
  });

  describe('S6: a network policy', () => {
    const policy = (...allow: readonly object[]) => ({ enabled: true, allow });
    const created: (readonly string[] | undefined)[] = [];
    const create: SandboxProvider['create'] = async (request, call) => {
      created.push(request.egress);
      return await world.provider.create(request, call);
    };
    beforeEach(() => created.splice(0));

    it('that is set while a session sleeps in its kept sandbox moves it to one with its rules', async () => {
      await start({ create }, 5, {}, { suspendMode: 'keep' });
      emulator.enqueue({ sessionId: 'devin-a' });
      await serving('devin-a');
      emulator.sleep('devin-a');
      await until(() => stageOf('devin-a') === 'suspended');
      const networkPolicy = policy({ hostname: 'example.com' });
      emulator.enqueue({ sessionId: 'devin-a', kind: 'resume', networkPolicy });
      await until(() => motor?.records.get(nameOf('devin-a'))?.sandboxId === 'null-2');
      await serving('devin-a');
      expect(created).toEqual([undefined, ['example.com']]);
      expect([...world.sandboxes.keys()]).toEqual(['null-2']);
    });

    it('that can no more be enforced keeps its session from being served anew', async () => {
      await start({ create });
      const networkPolicy = policy({ hostname: 'example.com' });
      emulator.enqueue({ sessionId: 'devin-a', networkPolicy });
      await serving('devin-a');
      emulator.enqueue({
        sessionId: 'devin-a',
        networkPolicy: policy({ ipv4: '10.0.0.0/8' }),
      });
      emulator.steal('devin-a', 'bench');
      world.sandboxes.delete('null-1');
      await until(() => motor?.records.get(nameOf('devin-a'))?.lastError?.step === 'ensure-sandbox');
      expect(motor?.records.get(nameOf('devin-a'))?.lastError?.message).toMatch(/policy cannot be enforced/);
      expect(created).toEqual([['example.com']]);
    });
  });

  it('Q9: pauses admission while the platform refuses our creates, and resumes with the first that works', async () => {
    let refused = true;
    let sweeps = 0;
    const create: SandboxProvider['create'] = async (request, call) => {
      if (refused) throw new ProviderError('unauthenticated', 'this key may not create');
      return await world.provider.create(request, call);
    };
    const list: SandboxProvider['list'] = async (query, call) => {
      sweeps += 1;
      return await world.provider.list(query, call);
    };
    await start({ create, list });
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => motor?.gate.pauses.has('platform-request') === true);
    emulator.enqueue({ sessionId: 'devin-b' });
    const before = sweeps;
    await until(() => sweeps > before + 5);
    // That lists work says nothing of creates.
    expect(motor?.gate.pauses.has('platform-request')).toBe(true);
    expect(stageOf('devin-b')).toBeUndefined();
    refused = false;
    await serving('devin-a');
    await serving('devin-b');
    expect(motor?.gate.pauses.size).toBe(0);
  });

  it('P3: a create that is refused for what a session brings along pauses nobody else', async () => {
    const create: SandboxProvider['create'] = async (request, call) => {
      if (request.restoreFrom !== undefined)
        throw new ProviderError('misconfigured', 'the archive is too large');
      return await world.provider.create(request, call);
    };
    const { gate, records } = await start({ create });
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    emulator.sleep('devin-a');
    await until(() => stageOf('devin-a') === 'suspended');
    emulator.wake('devin-a');
    await until(() => records.get(nameOf('devin-a'))?.lastError?.message.includes('too large') === true);
    expect(gate.pauses.size).toBe(0);
    emulator.enqueue({ sessionId: 'devin-b' });
    await serving('devin-b');
  });

  it('S4: an archive that is refused for a while is tried again, and not deleted for what begins without it', async () => {
    let refusals = 0;
    const deleted: string[] = [];
    const create: SandboxProvider['create'] = async (request, call) => {
      if (request.restoreFrom === undefined) return await world.provider.create(request, call);
      refusals += 1;
      throw new ProviderError('archive-failed', 'cannot be restored now');
    };
    const deleteSnapshot: SandboxProvider['deleteSnapshot'] = async (id) => void deleted.push(id);
    const name = nameOf('devin-a');
    const archive = { snapshotId: 'snap-old', takenAt: 1, sandboxId: 'null-0' };
    // Five tries are over.
    const asleep = record('suspended', { sessionId: 'devin-a', archive, refusals: 4 });
    const owner = { version: 1, outpostId: emulator.outpostId, acceptorId: 'bench' };
    const index = JSON.stringify({ ...owner, sessions: { [name]: asleep } });
    await writeFile(join(stateDir, 'sandbox_index.json'), index);
    emulator.enqueue({ sessionId: 'devin-a', kind: 'resume' });
    await start({ create, deleteSnapshot });
    await serving('devin-a');
    expect(refusals).toBe(2);
    emulator.sleep('devin-a');
    await until(() => stageOf('devin-a') === 'suspended');
    expect(motor?.records.get(name)).toMatchObject({
      archive: { snapshotId: 'snap-null-1' },
      setAside: ['snap-old'],
    });
    expect(deleted).toEqual([]);
    emulator.enqueue({ sessionId: 'devin-a', status: 'terminated' });
    await until(() => motor?.records.size === 0);
    expect(deleted).toContain('snap-old');
  });

  it('J1: one stray that cannot be destroyed keeps neither the others nor the queue waiting', async () => {
    stray('stray-1', 'devin-x');
    stray('stray-2', 'devin-y');
    const destroy: SandboxProvider['destroy'] = async (id, call) => {
      if (id === 'stray-1') throw new ProviderError('unauthenticated', 'not yours to destroy');
      await world.provider.destroy(id, call);
    };
    await start({ destroy });
    await until(() => !world.sandboxes.has('stray-2'));
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    expect(world.sandboxes.has('stray-1')).toBe(true);
  });

  it('L3: a terminated session whose archive cannot be deleted takes no slot', async () => {
    const deleteSnapshot: SandboxProvider['deleteSnapshot'] = async () => {
      throw new ProviderError('ambiguous', 'unavailable');
    };
    const snapshots: SandboxProvider['snapshots'] = async (id) => [
      { id: `snap-${id}`, state: 'ready', sourceSandboxId: id },
    ];
    await start({ deleteSnapshot, snapshots }, 1);
    emulator.enqueue({ sessionId: 'devin-a' });
    await serving('devin-a');
    emulator.terminate('devin-a');
    emulator.enqueue({ sessionId: 'devin-b' });
    await serving('devin-b');
    expect(stageOf('devin-a')).toBe('terminating');
    expect([...world.sandboxes.keys()]).toEqual(['null-2']);
  });
});
