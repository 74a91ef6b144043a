/**
 * `dvo doctor --smoke`: one session lives through its whole life on the live outpost. A person types into Devin what is
 * said here, and every step is ticked from what daemon and platform show. It only looks: nothing is made or ended by it.
 */
import type { Clock } from '../../lib/clock.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import type { SessionView, StatusView } from '../../ops/view.ts';
import { isGone, type SandboxProvider } from '../../sandboxes/provider.ts';
import { fail, pass, type Check, type Finding } from './check.ts';

export interface SmokeParts {
  /** A word that nobody else writes; it names the file, and is what stands in it. */
  readonly word: string;
  readonly clock: Clock;
  readonly open: () => Promise<SandboxProvider>;
  /** Undefined: no daemon runs. */
  readonly look: () => Promise<StatusView | undefined>;
  /** What the person has to do now. */
  readonly tell: (text: string) => void;
  readonly suspendMode: 'snapshot' | 'keep' | 'discard';
}

const ASK_MS = 30_000;
const LOOK_EVERY_MS = 1_000;
/** For a person to find the place and type; and for a queue and an image that are slow. */
const PERSON_MS = 900_000;
/** Devin puts a session to sleep by itself only after a while. */
const SLEEP_MS = 3_600_000;

export function smokeChecks(parts: SmokeParts): readonly Check[] {
  const smoke = new Smoke(parts);
  const { word } = parts;
  const file = `${word}.txt`;
  return [
    {
      id: 'smoke-daemon',
      title: 'a daemon runs, and admits sessions',
      // Not the list of outposts: the token that a daemon needs may not read it.
      needs: ['token', 'platform', 'state'],
      run: () => smoke.daemon(),
    },
    {
      id: 'smoke-serve',
      title: 'a new session is claimed and gets a sandbox',
      needs: ['smoke-daemon'],
      run: (signal) => smoke.served(`echo ${word} > ${file}`, signal),
    },
    {
      id: 'smoke-prompt',
      title: 'a prompt writes a file there',
      needs: ['smoke-serve'],
      run: (signal) => smoke.written(file, signal),
    },
    {
      id: 'smoke-sleep',
      title: 'the session falls asleep',
      needs: ['smoke-prompt'],
      run: (signal) => smoke.asleep(signal),
    },
    {
      id: 'smoke-wake',
      title: parts.suspendMode === 'discard' ? 'it wakes with an empty workspace' : 'it wakes with its file',
      needs: ['smoke-sleep'],
      run: (signal) => smoke.awake(file, signal),
    },
    {
      id: 'smoke-restart',
      title: 'a daemon that is started again goes on with it',
      needs: ['smoke-wake'],
      run: (signal) => smoke.restarted(signal),
    },
    {
      id: 'smoke-end',
      title: 'a session that has ended leaves nothing',
      needs: ['smoke-restart'],
      run: (signal) => smoke.ended(signal),
    },
  ];
}

class Smoke {
  readonly #parts: SmokeParts;
  /** The sandboxes that were there before. */
  #before: ReadonlySet<string> = new Set();
  #name = '';
  #sandboxId = '';
  #archiveId: string | undefined;
  #startedAt = 0;

  constructor(parts: SmokeParts) {
    this.#parts = parts;
  }

  async daemon(): Promise<Finding> {
    const view = await this.#parts.look();
    if (view?.daemon === undefined)
      return fail(
        'no daemon runs on STATE_DIR',
        'start it where it is to run, and let this see its STATE_DIR',
      );
    const { daemon, sessions, slots } = view;
    const trouble = [
      ...daemon.ready.reasons,
      ...daemon.admission.map(({ reason, detail }) => `${reason}: ${detail}`),
    ];
    if (slots.max !== undefined && slots.used >= slots.max) trouble.push('every slot is taken');
    if (trouble.length > 0)
      return fail(trouble.join('; '), 'dvo status and docs/operations.md say what to do about each');
    this.#before = new Set(sessions.flatMap(({ sandboxId }) => (sandboxId === undefined ? [] : [sandboxId])));
    this.#startedAt = daemon.startedAt;
    return pass(`version ${daemon.version}, ${slots.used} of ${slots.max ?? '?'} slots in use`);
  }

  async served(command: string, signal: AbortSignal): Promise<Finding> {
    this.#parts.tell(
      `In Devin, start a session on this outpost and send it:\n  Run exactly this, then wait for me: ${command}`,
    );
    return await this.#until('no new session was served', PERSON_MS, signal, async () => {
      const [first] = this.#fresh(await this.#look());
      return first && pass(`${first.sessionId} in ${first.sandboxId}`);
    });
  }

  /** Of all the sessions that are new, ours is the one with the file. */
  async written(file: string, signal: AbortSignal): Promise<Finding> {
    return await this.#until(`no new session's workspace holds ${file}`, PERSON_MS, signal, async () => {
      for (const { sessionId, name, sandboxId } of this.#fresh(await this.#look())) {
        const path = await this.#find(sandboxId, file, signal);
        if (path === undefined) continue;
        this.#name = name;
        this.#sandboxId = sandboxId;
        const twins = await this.#sandboxes(signal);
        if (twins.length > 1) return fail(`${name} has ${twins.length} sandboxes: ${twins.join(', ')}`, BUG);
        return pass(`${path} of ${sessionId}, in its only sandbox`);
      }
      return undefined;
    });
  }

  async asleep(signal: AbortSignal): Promise<Finding> {
    const { suspendMode, tell } = this.#parts;
    tell('In Devin, put the session to sleep; or leave it alone until it sleeps by itself');
    return await this.#until('the session did not fall asleep', SLEEP_MS, signal, async () => {
      const session = this.#session(await this.#look());
      const sleeps = suspendMode === 'discard' ? session === undefined : session?.stage === 'suspended';
      if (!sleeps) return undefined;
      if (suspendMode === 'keep')
        return pass(`its sandbox ${session?.sandboxId} is kept, as SUSPEND_MODE says`);
      if ((await this.#sandboxes(signal)).length > 0) return undefined;
      if (suspendMode === 'discard') return pass('nothing of it is kept, as SUSPEND_MODE says');
      this.#archiveId = session?.archive?.snapshotId;
      if (this.#archiveId !== undefined) return pass(`archive ${this.#archiveId}, no sandbox`);
      return fail(
        'it sleeps without an archive',
        'docs/operations.md: archives; dvo doctor --deep tries one',
      );
    });
  }

  async awake(file: string, signal: AbortSignal): Promise<Finding> {
    const { suspendMode, tell } = this.#parts;
    tell(`In Devin, send the session:\n  Run exactly this, then wait for me: cat ${file}`);
    return await this.#until('the session was not served again', PERSON_MS, signal, async () => {
      const session = this.#session(await this.#look());
      if (session?.stage !== 'serving' || session.sandboxId === undefined) return undefined;
      this.#sandboxId = session.sandboxId;
      const path = await this.#find(session.sandboxId, file, signal);
      if (suspendMode === 'discard')
        return path === undefined
          ? pass(`in ${session.sandboxId}`)
          : fail(`${path} is in ${session.sandboxId}`, BUG);
      return path === undefined
        ? fail(
            `${file} is not in ${session.sandboxId}`,
            'dvo logs --daemon says which archive it was made from',
          )
        : pass(`in ${session.sandboxId}`);
    });
  }

  async restarted(signal: AbortSignal): Promise<Finding> {
    this.#parts.tell(
      'Start the daemon again, as hard as you like: docker restart, systemctl restart, kill -9 and dvo run',
    );
    return await this.#until('the daemon was not started again', PERSON_MS, signal, async () => {
      const view = await this.#look();
      if (view.daemon?.startedAt === this.#startedAt) return undefined;
      const session = this.#session(view);
      if (session?.stage !== 'serving' || session.remote !== 'running') return undefined;
      if (session.sandboxId === this.#sandboxId) return pass(`the same remote in ${this.#sandboxId}`);
      return fail(`it is in ${session.sandboxId} now, and was in ${this.#sandboxId}`, BUG);
    });
  }

  async ended(signal: AbortSignal): Promise<Finding> {
    this.#parts.tell('In Devin, terminate the session');
    return await this.#until('something of the session is still there', PERSON_MS, signal, async () => {
      if (this.#session(await this.#look()) !== undefined || (await this.#sandboxes(signal)).length > 0)
        return undefined;
      return (await this.#hasArchive(signal)) ? undefined : pass('no record, no sandbox, no archive');
    });
  }

  /** @throws DvoError `state`: no daemon runs, which passes */
  async #look(): Promise<StatusView> {
    const view = await this.#parts.look();
    if (view === undefined) throw new DvoError('state', 'no daemon runs');
    return view;
  }

  #session({ sessions }: StatusView): SessionView | undefined {
    return sessions.find(({ name }) => name === this.#name);
  }

  #fresh({ sessions }: StatusView) {
    return sessions.flatMap(({ sandboxId, ...session }) =>
      sandboxId === undefined || session.stage !== 'serving' || this.#before.has(sandboxId)
        ? []
        : [{ ...session, sandboxId }],
    );
  }

  async #sandboxes(signal: AbortSignal): Promise<readonly string[]> {
    const provider = await this.#parts.open();
    const call = { timeoutMs: ASK_MS, signal };
    return (await provider.list({ tags: [this.#name], include: 'active' }, call)).map(({ id }) => id);
  }

  async #hasArchive(signal: AbortSignal): Promise<boolean> {
    if (this.#archiveId === undefined) return false;
    try {
      await (await this.#parts.open()).getSnapshot(this.#archiveId, { timeoutMs: ASK_MS, signal });
      return true;
    } catch (error) {
      if (!isGone(error)) throw error;
      return false;
    }
  }

  /** Where the file with the word in it is, in the session's volume. */
  async #find(sandboxId: string, file: string, signal: AbortSignal): Promise<string | undefined> {
    const provider = await this.#parts.open();
    const call = { timeoutMs: ASK_MS, signal };
    try {
      const { paths } = await provider.get(sandboxId, call);
      const argv = ['sh', '-c', FIND, paths.volume, file, this.#parts.word];
      const { stdout } = await provider.exec(sandboxId, { argv }, call);
      return stdout.trim() === '' ? undefined : stdout.trim();
    } catch (error) {
      if (!isGone(error)) throw error;
      return undefined;
    }
  }

  /** What `probe` finds, once it finds anything. A question that fails is asked again. */
  async #until(
    cause: string,
    limitMs: number,
    signal: AbortSignal,
    probe: () => Promise<Finding | undefined>,
  ): Promise<Finding> {
    const { clock } = this.#parts;
    const endsAt = clock.now() + limitMs;
    let trouble = '';
    while (clock.now() < endsAt) {
      try {
        const finding = await probe();
        if (finding !== undefined) return finding;
        trouble = '';
      } catch (error) {
        if (signal.aborted || !(error instanceof DvoError)) throw error;
        trouble = `; last trouble: ${describeError(error)}`;
      }
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
    return fail(
      `${cause} within ${limitMs / 60_000} minutes${trouble}`,
      'dvo status and dvo logs --daemon show how far it came; then run this again',
    );
  }
}

const FIND = 'find "$0" -name "$1" -type f -exec grep -lx "$2" {} + 2>/dev/null | head -n 1';
const BUG = 'this must never happen: keep the daemon’s log, and report it';
