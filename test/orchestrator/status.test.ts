/** The status view of a motor on the emulator, and of an index alone. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startEmulator, type Emulator } from '../../src/emulator/emulator.ts';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { STATUS_VIEW, type StatusView } from '../../src/ops/view.ts';
import type { Motor } from '../../src/orchestrator/motor.ts';
import { statusOf, statusOfIndex } from '../../src/orchestrator/status.ts';
import { ProviderError, type SandboxProvider } from '../../src/sandboxes/provider.ts';
import { nullWorld, startMotor } from '../support/null-world.ts';
import { until } from '../support/until.ts';

describe('the status view', () => {
  let emulator: Emulator;
  let stateDir: string;
  let motor: Motor | undefined;

  beforeEach(async () => {
    emulator = await startEmulator({
      clock: systemClock,
      random: systemRandom,
      node: process.execPath,
      knobs: { suspendedVisibleMs: 50, tombstoneMs: 50 },
    });
    stateDir = await mkdtemp(join(tmpdir(), 'dvo-status-'));
  });
  afterEach(async () => {
    await motor?.stop('detach', 1_000);
    motor = undefined;
    await emulator.stop();
    await rm(stateDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function start(maxSessions: number, overrides: Partial<SandboxProvider> = {}): Promise<void> {
    const world = nullWorld();
    motor = await startMotor({
      url: emulator.url,
      outpostId: emulator.outpostId,
      token: emulator.knobs.token,
      stateDir,
      maxSessions,
      world: { ...world, provider: { ...world.provider, ...overrides } },
      settings: { sweepEveryMs: 50, strayGraceMs: 300 },
      rules: { confirmEveryMs: 50, probeEveryMs: 100, bootPollMs: 20, relaunchFirstMs: 20 },
    });
  }

  const parts = () => ({
    outpostId: 'outpost',
    acceptorId: 'bench',
    now: systemClock.now(),
    scrub: (text: string) => text.replaceAll('hush', '…'),
  });

  function status(): StatusView {
    if (motor === undefined) throw new Error('not started');
    const daemon = { version: '1', provider: 'null', startedAt: 1, ready: { ok: true, reasons: [] } };
    return STATUS_VIEW.parse(statusOf(motor, daemon, parts()));
  }

  it('shows a session’s life, and who waits for what', async () => {
    await start(1);
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => status().sessions[0]?.stage === 'serving');
    emulator.enqueue({ sessionId: 'devin-b' });
    emulator.enqueue({ sessionId: 'devin-mac', platform: 'macos' });
    await until(() => status().waiting.length === 2);
    const { sessions, slots, waiting, waitingCount } = status();
    expect(slots).toEqual({ used: 1, max: 1 });
    expect(sessions[0]?.events.map(({ what }) => what)).toEqual([
      'queued',
      'claimed',
      'sandbox asked for',
      'sandbox assigned',
      'preparing',
      'serving',
    ]);
    expect(sessions[0]?.remote).toBe('running');
    expect(waitingCount).toBe(2);
    expect(Object.fromEntries(waiting.map(({ sessionId, why }) => [sessionId, why]))).toEqual({
      'devin-b': 'no free slot: 1 of 1 are taken',
      'devin-mac': 'it asks for another platform than linux',
    });
  });

  it('shows a failing session with its error, what to do, and no secret; and why admission is paused', async () => {
    const create: SandboxProvider['create'] = async () => {
      throw new ProviderError('unauthenticated', 'bad key hush');
    };
    await start(1, { create });
    if (motor !== undefined) motor.history.scrub = parts().scrub;
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => status().sessions[0]?.lastError !== undefined);
    emulator.enqueue({ sessionId: 'devin-b' });
    const view = await until(() => {
      const now = status();
      return now.waiting.length === 1 && now.daemon?.admission.length === 1 && now;
    });
    expect(view.sessions[0]?.lastError).toMatchObject({
      step: 'ensure-sandbox',
      message: expect.stringContaining('bad key'),
      hint: expect.stringContaining('capacity'),
    });
    expect(view.daemon?.admission).toMatchObject([
      { reason: 'platform-request', hint: expect.stringContaining('key') },
    ]);
    expect(view.waiting[0]?.why).toContain('admission is paused');
    expect(JSON.stringify(view)).not.toContain('hush');
  });

  it('tells what became of a session that is gone', async () => {
    await start(1);
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => status().sessions[0]?.stage === 'serving');
    emulator.terminate('devin-a');
    await until(() => status().sessions.length === 0);
    const [ended] = status().ended ?? [];
    expect(ended?.sessionId).toBe('devin-a');
    expect(ended?.events.slice(-3).map(({ what }) => what)).toEqual([
      'being deleted',
      'sandbox gone',
      'let go',
    ]);
  });

  it('is made from the index alone when no daemon runs', async () => {
    await start(2);
    emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => status().sessions[0]?.stage === 'serving');
    if (motor === undefined) throw new Error('not started');
    const view = STATUS_VIEW.parse(statusOfIndex(motor.records, motor.history, parts()));
    expect(view.daemon).toBeUndefined();
    expect(view.slots).toEqual({ used: 1 });
    expect(view.sessions[0]).toMatchObject({ sessionId: 'devin-a', stage: 'serving', sandbox: 'unknown' });
  });
});
