import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { processesOf } from '../../src/sandboxes/local/processes.ts';
import { Stage } from '../support/stage.ts';
import { until } from '../support/until.ts';

const CONTRACT = [
  'PATH HOME USER LOGNAME TMPDIR LANG TZ',
  'DEVIN_OUTPOST_GATEWAY_URL DEVIN_OUTPOST_CONNECT_TOKEN DEVIN_OUTPOST_SESSION_ID',
  'DEVIN_REMOTE_STATE_DIR DEVIN_CHROME_PATH DEVIN_OUTPOST_DESKTOP',
]
  .join(' ')
  .split(' ');

describe('starting', () => {
  it('D6: names every missing or wrong variable at once, claims nothing, and exits with 2', async () => {
    await using stage = await Stage.open({
      env: { OUTPOST_ID: '', DEVIN_OUTPOSTS_TOKEN: '', MAX_CONCURRENT_SESSIONS: 'many', OPS_PORT: '99999' },
    });
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    stage.daemon.start();
    expect(await stage.daemon.exited()).toBe(2);
    const said = await stage.printed();
    for (const name of ['OUTPOST_ID', 'DEVIN_OUTPOSTS_TOKEN', 'MAX_CONCURRENT_SESSIONS', 'OPS_PORT']) {
      expect(said).toContain(name);
    }
    expect(stage.facts.session('devin-a')?.seen.claims).toBe(0);
  });

  it('starts without a queue, is not ready, and becomes ready when the queue appears', async () => {
    await using stage = await Stage.open();
    stage.emulator.fault({ route: '*', kind: 'reset', count: 0 });
    await stage.start();
    const before = await stage.ops('/readyz');
    expect(before.status).toBe(503);
    expect(before.text).toContain('the queue has not been read yet');
    expect((await stage.ops('/healthz')).status).toBe(200);
    stage.emulator.faults.clear();
    await until(async () => (await stage.ops('/readyz')).status === 200);
  });

  it('D8: an unwritable STATE_DIR stops the start with the reason', async () => {
    await using stage = await Stage.open();
    const file = join(stage.stateDir, 'a-file');
    await writeFile(file, '');
    await using blocked = await Stage.open({
      emulator: stage.emulator,
      env: { STATE_DIR: join(file, 'below') },
    });
    blocked.daemon.start();
    expect(await blocked.daemon.exited()).toBe(1);
    expect(await blocked.printed()).toContain('STATE_DIR');
  });

  it('refuses an index that belongs to another outpost, and leaves it as it is', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-a');
    await stage.daemon.end('SIGKILL');
    const path = join(stage.stateDir, 'sandbox_index.json');
    const before = await readFile(path, 'utf8');
    await using other = await Stage.open({
      emulator: stage.emulator,
      env: { STATE_DIR: stage.stateDir, OUTPOST_ID: 'outpost_env-other' },
    });
    other.daemon.start();
    expect(await other.daemon.exited()).toBe(1);
    expect(await other.printed()).toContain('belongs to OUTPOST_ID=outpost_env-emulator');
    expect(await readFile(path, 'utf8')).toBe(before);
  });
});

describe('stopping', () => {
  it('T6: SIGTERM leaves remotes running, releases what has no machine, and exits 0', async () => {
    await using stage = await Stage.start();
    const pid = await stage.serve('devin-a');
    expect(await stage.daemon.end('SIGTERM')).toBe(0);
    expect(await stage.count('stopped')).toBe(1);
    expect(await stage.run('devin-a', 'echo here')).toBe('here\n');
    await stage.start();
    stage.emulator.expire('devin-a');
    await until(() => stage.facts.session('devin-a')?.phase === 'claimed');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
  });

  it('T6: a STATE_DIR that cannot be written any more does not make a clean stop a failure', async () => {
    await using stage = await Stage.start();
    const opsFile = join(stage.stateDir, 'ops.json');
    await rm(opsFile);
    // Not to be unlinked, also by root.
    await mkdir(opsFile);
    expect(await stage.daemon.end('SIGTERM')).toBe(0);
    expect(await stage.count('not everything could be closed')).toBe(1);
    expect(await stage.count('cannot start')).toBe(0);
    await rm(opsFile, { recursive: true });
    await stage.start();
  });

  it('T5: Ctrl-C stops it with its last words', async () => {
    await using stage = await Stage.start();
    expect(await stage.daemon.end('SIGINT')).toBe(0);
    expect(await stage.count('stopped')).toBe(1);
  });

  it('T6: a second signal ends it at once', async () => {
    await using stage = await Stage.start({ env: { SHUTDOWN_GRACE_SECONDS: '600' } });
    stage.emulator.fault({ route: 'claim', kind: 'hang', count: 0 });
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => (stage.emulator.state().requests['claim'] ?? 0) > 0);
    const ended = stage.daemon.end('SIGTERM');
    await until(async () => (await stage.count('stopping')) === 1);
    void stage.daemon.end('SIGTERM');
    expect(await ended).toBe(1);
    expect(await stage.count('second signal: ending at once')).toBe(1);
  });

  it('T6: stops within its grace while a call hangs', async () => {
    await using stage = await Stage.start({ env: { SHUTDOWN_GRACE_SECONDS: '2' } });
    stage.emulator.fault({ route: 'claim', kind: 'hang', count: 0 });
    stage.emulator.enqueue({ sessionId: 'devin-a' });
    await until(() => (stage.emulator.state().requests['claim'] ?? 0) > 0);
    expect(await stage.daemon.end('SIGTERM')).toBe(0);
  });

  it('D5: drains when asked to: every session is archived first', async () => {
    await using stage = await Stage.start({ env: { SHUTDOWN_MODE: 'drain' } });
    await stage.serve('devin-a');
    await stage.run('devin-a', 'echo kept > file');
    expect(await stage.daemon.end('SIGTERM')).toBe(0);
    expect(await stage.facts.stage('devin-a')).toBe('suspended');
    expect(await stage.facts.sandboxes()).toHaveLength(0);
    expect(stage.facts.session('devin-a')?.phase).toBe('pending');
    await stage.start({ SHUTDOWN_MODE: 'detach' });
    await until(async () => (await stage.count('remote launched')) === 2);
    await stage.connected('devin-a');
    expect(await stage.run('devin-a', 'cat file')).toBe('kept\n');
  });
});

describe('secrets', () => {
  it('T8: the remote sees the contract’s variables and nothing else', async () => {
    await using stage = await Stage.start({
      env: { RANDOM_NEW_SECRET: 'hunter2hunter2', GIT_TOKEN: 'ghp_topsecret' },
    });
    const pid = await stage.serve('devin-a');
    const environ = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0').filter((one) => one !== '');
    const names = environ.map((one) => one.slice(0, one.indexOf('=')));
    expect(names.filter((name) => !CONTRACT.includes(name))).toEqual([]);
    expect(names).toContain('DEVIN_OUTPOST_CONNECT_TOKEN');
  });

  it('D8: no secret in any log line, in the index, in any argv, or in a process that is not the remote', async () => {
    const gitToken = 'ghp_topsecret_token';
    await using stage = await Stage.start({
      env: { GIT_TOKEN: gitToken, REPOS: 'http://127.0.0.1:9/nowhere' },
    });
    const pid = await stage.serve('devin-a');
    const connectToken = [...(stage.emulator.store.sessions.get('devin-a')?.tokens ?? [])];
    const secrets = [stage.emulator.knobs.token, gitToken, ...connectToken];
    expect(secrets).toHaveLength(3);
    const sandboxes = join(stage.stateDir, 'local');
    const texts = [await stage.printed(), await readFile(join(stage.stateDir, 'sandbox_index.json'), 'utf8')];
    for (const one of await processesOf(sandboxes)) {
      texts.push(await readFile(`/proc/${one.pid}/cmdline`, 'utf8'));
      if (one.pid !== pid) texts.push(await readFile(`/proc/${one.pid}/environ`, 'utf8'));
    }
    stage.emulator.sleep('devin-a');
    await stage.asleep('devin-a');
    for (const archive of await stage.facts.archives()) {
      texts.push(await readFile(join(sandboxes, 'snapshots', archive), 'latin1'));
    }
    texts.push((await stage.ops('/metrics')).text, (await stage.ops('/readyz')).text);
    for (const secret of secrets) for (const text of texts) expect(text.includes(secret)).toBe(false);
  });

  it('T4: uses a rotated token file without a restart; until then nothing is released or destroyed', async () => {
    await using stage = await Stage.open();
    const tokenFile = join(stage.stateDir, 'token');
    await writeFile(tokenFile, stage.emulator.knobs.token);
    await stage.start({ DEVIN_OUTPOSTS_TOKEN: '', DEVIN_OUTPOSTS_TOKEN_FILE: tokenFile });
    const pid = await stage.serve('devin-a');
    stage.emulator.knobs.token = 'cog_rotated_token';
    await until(async () => (await stage.ops('/readyz')).text.includes('DEVIN_OUTPOSTS_TOKEN'));
    expect((await stage.ops('/readyz')).status).toBe(503);
    expect((await stage.ops('/healthz')).status).toBe(200);
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    await writeFile(tokenFile, 'cog_rotated_token\n');
    await until(async () => (await stage.ops('/readyz')).status === 200, { withinMs: 30_000 });
    await stage.serve('devin-b');
    expect(stage.facts.remotePid('devin-a')).toBe(pid);
    expect(await stage.facts.sandboxes()).toHaveLength(2);
  }, 60_000);
});

describe('operating it', () => {
  it('O9: counts what it does, with every series there from the start', async () => {
    await using stage = await Stage.start();
    const before = (await stage.ops('/metrics')).text;
    for (const series of [
      'dvo_claims_total{result="lost"} 0',
      'dvo_archives_total{result="failed"} 0',
      'dvo_sessions{stage="serving"} 0',
    ]) {
      expect(before).toContain(series);
    }
    await stage.serve('devin-a');
    await until(async () => (await stage.metric('dvo_claims_total{result="claimed"}')) === 1);
    await until(async () => (await stage.metric('dvo_sessions{stage="serving"}')) === 1);
    expect(await stage.metric('dvo_enqueued_to_serving_seconds_count')).toBe(1);
    expect((await stage.ops('/nowhere')).status).toBe(404);
  });
});
