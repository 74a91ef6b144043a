/** One daemon with points in it, on a stage of its own, and what can be seen of one session. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Facts } from '../../../src/cli/demo/facts.ts';
import type { SessionRecord } from '../../../src/session/session.ts';
import { sandboxName } from '../../../src/sandboxes/names.ts';
import { Stage, type StageOptions } from '../../support/stage.ts';
import { until } from '../../support/until.ts';
import { give, traceFile, type Order } from './order.ts';

const PRELOAD = fileURLToPath(new URL('./preload.ts', import.meta.url));
/** Quick where a live outpost is patient; the order of things is the same. */
const RULES = { confirmEveryMs: 100, bootPollMs: 100, relaunchFirstMs: 100, yieldGraceMs: 500 };
const WRITTEN = 'written before the kill';

export class Scene implements AsyncDisposable {
  readonly stage: Stage;
  /** What there is on the platform, which may be shared with another daemon. */
  readonly platform: Facts;
  readonly #root: string;
  readonly #watching = new AbortController();
  readonly #watch: Promise<void>;
  /** The most sandboxes that one session ever had at a time. */
  most = 0;
  #order: Order = { rules: RULES };
  #crashed: string | undefined;

  private constructor(stage: Stage, owner: Stage) {
    this.stage = stage;
    this.platform = owner.facts;
    this.#root = join(owner.stateDir, 'local');
    this.#watch = this.#countSandboxes();
  }

  /** @param owner whose platform is used; by default the daemon's own */
  static async open(options: StageOptions = {}, owner?: Stage): Promise<Scene> {
    // A row that left while the daemon is down says that its session sleeps: on a busy machine that may be long.
    const knobs = {
      suspendedVisibleMs: 300,
      tombstoneMs: 600_000,
      claimLifeMs: 3_600_000,
      keepaliveMs: 5_000,
    };
    const stage = await Stage.open({
      ...options,
      knobs: { ...knobs, ...options.knobs },
      env: { MAX_CONCURRENT_SESSIONS: '100', LOG_LEVEL: 'info', ...options.env },
    });
    await give(stage.stateDir, { rules: RULES });
    return new Scene(stage, owner ?? stage);
  }

  async start(): Promise<void> {
    await this.stage.start({
      NODE_OPTIONS: `--import=${PRELOAD}`,
      KILL_FOLDER: this.stage.stateDir,
      KILL_PLATFORM: this.#root,
      NODE_COMPILE_CACHE: join(this.stage.stateDir, 'compiled'),
    });
  }

  async order(order: Omit<Order, 'rules'>): Promise<void> {
    this.#order = { ...this.#order, ...order };
    await give(this.stage.stateDir, this.#order);
  }

  /** Kills the daemon when the session passes the point. */
  async killAt(sessionId: string, point: string): Promise<void> {
    await this.order({ kill: { sessionId, point } });
  }

  async killNowhere(): Promise<void> {
    const { kill: _, ...rest } = this.#order;
    this.#order = rest;
    await give(this.stage.stateDir, rest);
  }

  /** Nothing out of the ordinary any more. */
  async orderNothing(): Promise<void> {
    this.#order = { rules: RULES };
    await give(this.stage.stateDir, this.#order);
  }

  /** The points that the session has passed so far, in order. */
  async passings(sessionId: string): Promise<readonly string[]> {
    const text = await readFile(traceFile(this.stage.stateDir), 'utf8').catch(() => '');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { sessionId: string; point: string })
      .filter((one) => one.sessionId === sessionId)
      .map(({ point }) => point);
  }

  async record(sessionId: string): Promise<SessionRecord | undefined> {
    const text = await readFile(join(this.stage.stateDir, 'sandbox_index.json'), 'utf8').catch(() => '{}');
    const index = JSON.parse(text) as { sessions?: Record<string, SessionRecord> };
    return index.sessions?.[sandboxName(this.stage.emulator.outpostId, sessionId)];
  }

  async serve(sessionId: string): Promise<void> {
    this.stage.emulator.enqueue({ sessionId });
    await this.served(sessionId);
    await this.write(sessionId);
  }

  /** Claimed by this daemon, with one sandbox and a remote in it. */
  async served(sessionId: string): Promise<void> {
    const acceptor = await this.acceptor();
    await until(
      async () => {
        const session = this.stage.emulator.session(sessionId);
        const { stage, sandboxId, remote } = (await this.record(sessionId)) ?? {};
        const [sandbox, ...more] = await this.platform.sandboxes(sessionId);
        return (
          session?.acceptor === acceptor &&
          stage === 'serving' &&
          sandbox !== undefined &&
          sandbox === sandboxId &&
          more.length === 0 &&
          session.remote !== undefined &&
          session.remote.pid === remote?.pid
        );
      },
      { what: `${sessionId} is served` },
    );
  }

  /** A row that has left the queue is nobody's. */
  claimed(sessionId: string): boolean {
    const session = this.stage.emulator.session(sessionId);
    return session?.queued === true && session.phase === 'claimed';
  }

  /** Its remote exits with an error. */
  async crash(sessionId: string): Promise<void> {
    this.#crashed = (await this.record(sessionId))?.remote?.launchId;
    this.stage.emulator.crashRemote(sessionId, 3);
  }

  /** Served by another launch than the one that crashed. */
  async relaunched(sessionId: string): Promise<void> {
    await until(
      async () => {
        const launchId = (await this.record(sessionId))?.remote?.launchId;
        return launchId !== undefined && launchId !== this.#crashed;
      },
      { what: `${sessionId} is launched again` },
    );
    await this.served(sessionId);
  }

  async acceptor(): Promise<string> {
    const { env, stateDir } = this.stage;
    return (
      env['ACCEPTOR_ID'] ?? (await readFile(join(stateDir, 'acceptor_id'), 'utf8').catch(() => '')).trim()
    );
  }

  async write(sessionId: string): Promise<void> {
    await this.stage.run(sessionId, `echo ${WRITTEN} > file`);
  }

  /** Makes an archive of the session due; `checkpointed` waits for it. */
  async checkpoint(): Promise<void> {
    await this.order({ archiveSince: Date.now() });
  }

  /** The newest archive is the one that was due, and the one before it is deleted. */
  async checkpointed(sessionId: string): Promise<void> {
    const since = this.#order.archiveSince ?? 0;
    await until(
      async () => {
        const { archive } = (await this.record(sessionId)) ?? {};
        return (
          archive !== undefined && archive.takenAt >= since && (await this.archives()) === archive.snapshotId
        );
      },
      { what: `${sessionId} has a new archive, and only that` },
    );
  }

  /** The platform will end the session's sandbox soon. */
  async endSoon(sessionId: string): Promise<void> {
    const [sandbox = ''] = await this.platform.sandboxes(sessionId);
    await this.order({ endsSoon: sandbox });
  }

  /** It has left the sandbox that ends soon. */
  async moved(sessionId: string): Promise<void> {
    await until(
      async () => {
        const [sandbox, ...more] = await this.platform.sandboxes(sessionId);
        return sandbox !== undefined && sandbox !== this.#order.endsSoon && more.length === 0;
      },
      { what: `${sessionId} has moved to another sandbox` },
    );
  }

  /** The ids of all archives, whole or not. */
  async archives(): Promise<string> {
    const files = await readdir(join(this.#root, 'snapshots'));
    return [...new Set(files.map((name) => name.replace(/\..*$/, '')))].toSorted().join();
  }

  /** Everything written is where it was. */
  async remembers(sessionId: string): Promise<void> {
    await until(
      async () => {
        if (this.stage.facts.remotePid(sessionId) === undefined) return false;
        const late = new Promise<string>((resolve) => setTimeout(() => resolve('no answer'), 5_000).unref());
        return (await Promise.race([this.stage.run(sessionId, 'cat file'), late])) === `${WRITTEN}\n`;
      },
      { what: `${sessionId} has its file` },
    );
  }

  async archiveHoldsFile(sessionId: string): Promise<void> {
    const { archive } = (await this.record(sessionId)) ?? {};
    const tar = join(this.#root, 'snapshots', `${archive?.snapshotId}.tar`);
    const { stdout } = await promisify(execFile)('tar', ['-xOf', tar, './file']);
    if (stdout !== `${WRITTEN}\n`) throw new Error(`the archive of ${sessionId} does not hold its file`);
  }

  /** Archived, with the archive that the record names and no other; no sandbox, no claim. */
  async asleep(sessionId: string): Promise<void> {
    await until(
      async () => {
        const { stage, archive } = (await this.record(sessionId)) ?? {};
        return (
          stage === 'suspended' &&
          (await this.platform.sandboxes(sessionId)).length === 0 &&
          archive !== undefined &&
          (await this.archives()) === archive.snapshotId &&
          !this.claimed(sessionId)
        );
      },
      { what: `${sessionId} sleeps with its archive` },
    );
  }

  /** No sandbox, no archive and no record is left of it, and nobody claims it. */
  async gone(sessionId: string): Promise<void> {
    await until(
      async () =>
        (await this.record(sessionId)) === undefined &&
        (await this.platform.sandboxes(sessionId)).length === 0 &&
        (await this.archives()) === '' &&
        !this.claimed(sessionId),
      { what: `${sessionId} is gone` },
    );
  }

  /** Let go for another daemon, with an archive that it can go on from; it clears away what else there is. */
  async left(sessionId: string): Promise<void> {
    await until(
      async () =>
        (await this.record(sessionId)) === undefined &&
        (await this.platform.sandboxes(sessionId)).length === 0 &&
        (await this.archives()) !== '',
      { what: `${sessionId} is left to the other daemon` },
    );
  }

  async end(sessionId: string): Promise<void> {
    const { emulator } = this.stage;
    emulator.terminate(sessionId);
    await this.gone(sessionId);
    const row = emulator.store.row(sessionId);
    if (row !== undefined) emulator.store.remove(row);
  }

  /** What is wrong now that every session has been ended. */
  async leaks(): Promise<readonly string[]> {
    const wrong: string[] = [];
    const index = await readFile(join(this.stage.stateDir, 'sandbox_index.json'), 'utf8');
    const { sessions, failures } = JSON.parse(index) as Record<string, object>;
    const left = { ...sessions, ...failures };
    if (Object.keys(left).length > 0) wrong.push(`left in the index: ${JSON.stringify(left)}`);
    await until(async () => (await this.platform.processes()) === 0, { what: 'no process is left' });
    for (const origin of (await this.stage.lines('started')).map((line) => String(line['index']))) {
      if (origin !== 'read' && origin !== 'new') wrong.push(`the index could not be read: ${origin}`);
    }
    if (this.most > 1) wrong.push(`a session had ${this.most} sandboxes at one time`);
    for (const fatal of ['fatal error', 'pass failed', 'cannot start']) {
      for (const line of await this.stage.lines(fatal)) wrong.push(`${fatal}: ${JSON.stringify(line)}`);
    }
    return [...wrong, ...this.stage.emulator.state().violations];
  }

  /** The end of the daemon's log, for a failure's text. */
  async lastWords(): Promise<string> {
    return (await this.stage.printed()).trimEnd().split('\n').slice(-40).join('\n');
  }

  /** The name is the first tag of every sandbox. */
  async #countSandboxes(): Promise<void> {
    const folder = join(this.#root, 'sandboxes');
    while (!this.#watching.signal.aborted) {
      const counts = new Map<string, number>();
      for (const id of await readdir(folder).catch(() => [])) {
        const text = await readFile(join(folder, id, 'sandbox.json'), 'utf8').catch(() => undefined);
        if (text === undefined) continue;
        const [name = ''] = (JSON.parse(text) as { tags: string[] }).tags;
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
      this.most = Math.max(this.most, ...counts.values());
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watching.abort();
    await this.#watch;
    await this.stage[Symbol.asyncDispose]();
  }
}
