/**
 * The sandbox platform: the credential, and, with `--deep`, a throw-away sandbox through its whole life. It carries a
 * tag of its own, so that no daemon takes it for a session's, and everything made is found again by it.
 */
import type { Config } from '../../config/config.ts';
import type { Clock, Random } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { ScriptRunner } from '../../remote/script.ts';
import { outpostTag } from '../../sandboxes/names.ts';
import type { SandboxInfo, SandboxProvider } from '../../sandboxes/provider.ts';
import { fail, pass, skip, type Check, type Finding } from './check.ts';
import { platformFault } from './platform-fault.ts';
import { ThrowAway } from './throw-away.ts';
import { judgeTools, TOOLS } from './tools.ts';

export interface PlatformParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  /** Called once; its provider is used by all. */
  readonly open: () => Promise<SandboxProvider>;
  readonly depth: 'shallow' | 'deep';
}

const ASK_MS = 30_000;
const TOOLS_MS = 60_000;
/** The SDK's own default for an archive. */
const SNAPSHOT_MS = 600_000;

export function platformChecks(parts: PlatformParts): readonly Check[] {
  const { config, open } = parts;
  let provider: SandboxProvider | undefined;
  const credential: Check = {
    id: 'platform',
    title:
      config.provider === 'coreweave' ? 'CoreWeave accepts the credential' : 'local sandboxes can be made',
    async run(signal) {
      try {
        provider = await open();
        const query = { tags: [outpostTag(config.devin.outpostId)], include: 'active' } as const;
        const found = await provider.list(query, { timeoutMs: ASK_MS, signal });
        return pass(`${provider.name}; sandboxes of this outpost now: ${found.length}`);
      } catch (error) {
        return platformFault(error, signal);
      }
    },
  };
  if (parts.depth === 'shallow') {
    const run = async (): Promise<Finding> => skip('makes a sandbox: dvo doctor --deep');
    return [
      credential,
      { id: 'image', title: 'the image has git, curl and sha256sum', run },
      { id: 'archive', title: 'a workspace can be archived and restored', run },
    ];
  }
  const opened = (): SandboxProvider => {
    if (provider === undefined) throw new DvoError('internal', 'the platform has not been opened');
    return provider;
  };
  return [credential, ...deepChecks(parts, opened)];
}

function deepChecks(parts: PlatformParts, provider: () => SandboxProvider): readonly Check[] {
  const { clock, random, config } = parts;
  const throwAway = new ThrowAway({ provider, clock, tag: `dvo-doctor-${random.id().slice(0, 16)}` });
  const guarded =
    (work: (signal: AbortSignal) => Promise<Finding>): Check['run'] =>
    async (signal) => {
      try {
        return await work(signal);
      } catch (error) {
        return platformFault(error, signal);
      }
    };
  let first: SandboxInfo | undefined;
  let archive: string | undefined;
  const written = random.id();
  return [
    {
      id: 'sandbox',
      title: 'a sandbox starts',
      needs: ['platform'],
      run: guarded(async (signal) => {
        first = await throwAway.make(undefined, signal);
        return pass(first.id);
      }),
    },
    {
      id: 'image',
      title: 'the image has git, curl and sha256sum',
      needs: ['sandbox'],
      run: guarded(async (signal) => {
        const values = { user: config.workspace.user ?? '' };
        const runner = new ScriptRunner(provider(), random);
        const script = { name: 'look for tools', values, body: TOOLS };
        return judgeTools(await runner.run(made(first).id, script, { timeoutMs: TOOLS_MS, signal }));
      }),
    },
    {
      id: 'snapshot',
      title: 'its workspace is archived',
      needs: ['sandbox'],
      run: guarded(async (signal) => {
        const call = { timeoutMs: ASK_MS, signal };
        const { id, paths } = made(first);
        await provider().writeFile(id, fileIn(paths.volume), new TextEncoder().encode(written), call);
        const snapshot = await provider().snapshot(id, { timeoutMs: SNAPSHOT_MS, signal });
        archive = snapshot.id;
        await throwAway.end(id, signal);
        return pass(`${archive}, and the sandbox destroyed`);
      }),
    },
    {
      id: 'restore',
      title: 'another sandbox is restored from it',
      needs: ['snapshot'],
      run: guarded(async (signal) => {
        const { id, paths } = await throwAway.make(archive, signal);
        const bytes = await provider().readFile(id, fileIn(paths.volume), { timeoutMs: ASK_MS, signal });
        return new TextDecoder().decode(bytes) === written
          ? pass('with what was written before')
          : fail(
              'the restored workspace holds something else',
              'do not use SUSPEND_MODE=snapshot; report it',
            );
      }),
    },
    {
      id: 'left',
      title: 'nothing of it is left',
      needs: ['platform'],
      always: true,
      run: async () => {
        const left = await throwAway.clear();
        if (left.length > 0)
          return fail(
            `could not be removed: ${left.join('; ')}`,
            `remove them by hand; they carry the tag ${throwAway.tag}`,
          );
        return pass('sandboxes and archive removed');
      },
    },
  ];
}

function made(info: SandboxInfo | undefined): SandboxInfo {
  if (info === undefined) throw new DvoError('internal', 'there is no sandbox');
  return info;
}

function fileIn(volume: string): string {
  return `${volume}/dvo-doctor.txt`;
}
