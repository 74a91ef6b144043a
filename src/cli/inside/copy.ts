/**
 * `dvo cp`: files and folders into a session's sandbox, and out of it. One archive is packed on one side and unpacked on
 * the other, by the same two scripts.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix, resolve } from 'node:path';
import { systemRandom } from '../../lib/clock.ts';
import { DvoError } from '../../lib/errors.ts';
import { failed } from '../beside.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { openPlace, type Place } from './place.ts';

/** For gigabytes over a slow line. */
const COPY_MS = 3_600_000;

/** $0 the archive, $1 what goes into it. A folder is packed under its own name, also as `.` or with a slash. */
const PACK = [
  'set -e',
  'from=$1',
  'if [ -d "$from" ]; then from=$(cd -- "$from" && pwd -P); fi',
  '[ -e "$from" ] || [ -L "$from" ] || { echo "no such file or folder: $1" >&2; exit 1; }',
  'mkdir -p -- "$(dirname -- "$0")"',
  'tar -cf "$0" -C "$(dirname -- "$from")" -- "$(basename -- "$from")"',
].join('\n');

/**
 * $0 the archive, $1 where to; $2 not empty: a folder, made if need be; $3 who is to own what is made, empty: whoever we
 * are. As cp does it: into a folder that exists, else
 * under the new name. A folder that is there already is added to. Unpacked beside its place first: what is cut off leaves no half.
 */
const UNPACK = [
  'set -e',
  'to=$1 user=$3',
  'own() { [ -z "$user" ] || chown -Rh -- "$user:" "$1"; }',
  'make() { [ -d "$1" ] || { make "$(dirname -- "$1")"; mkdir -- "$1"; own "$1"; }; }',
  '[ -z "$2" ] || make "$to"',
  'if [ -d "$to" ]; then into=$to; name=',
  'else into=$(dirname -- "$to"); name=$(basename -- "$to"); make "$into"; fi',
  'beside=$(mktemp -d "$into/.dvo-cp.XXXXXX")',
  `trap 'rm -rf -- "$beside" "$0"' EXIT`,
  'tar -xf "$0" --no-same-owner -C "$beside"',
  'own "$beside"',
  'base=$(ls -A "$beside")',
  'target=$into/${name:-$base}',
  'if [ -d "$beside/$base" ] && [ -d "$target" ]; then cp -a "$beside/$base/." "$target/"',
  'elif [ -d "$target" ]; then echo "a folder is in the way: $target" >&2; exit 1',
  'elif [ -d "$beside/$base" ] && [ -e "$target" ]; then echo "a file is in the way: $target" >&2; exit 1',
  'else mv -f -- "$beside/$base" "$target"; fi',
].join('\n');

interface There {
  readonly session: string;
  readonly path: string;
}

export async function runCopy(from: string, to: string, terminal: Terminal): Promise<ExitCode> {
  await using opened = new AsyncDisposableStack();
  try {
    const [source, target] = [there(from), there(to)];
    if ((source === undefined) === (target === undefined)) {
      throw new DvoError(
        'config',
        'one of the two is <session>:<path>, as in: dvo cp notes.txt devin-4711:notes.txt',
      );
    }
    const place = await openPlace((source ?? target)?.session ?? '', terminal, opened);
    const folder = await mkdtemp(join(tmpdir(), 'dvo-cp-'));
    opened.defer(() => rm(folder, { recursive: true, force: true }));
    const copy = new Copy(place, join(folder, 'archive.tar'), leaving(opened));
    if (source !== undefined) await copy.out(source.path, to);
    if (target !== undefined) await copy.in(from, target.path);
    return EXIT.ok;
  } catch (error) {
    return failed(error, terminal);
  }
}

/** Undefined: a path on this machine. One with a colon in it is written with `./` or `/` before it. */
function there(word: string): There | undefined {
  const [, session, path = ''] = /^([^./:][^/:]*):(.*)$/s.exec(word) ?? [];
  return session === undefined ? undefined : { session, path: path === '' ? '.' : path };
}

class Copy {
  readonly #place: Place;
  /** On this machine. */
  readonly #here: string;
  /** In the sandbox, outside of what is archived. */
  readonly #archive: string;
  readonly #signal: AbortSignal;

  constructor(place: Place, here: string, signal: AbortSignal) {
    this.#place = place;
    this.#here = here;
    this.#archive = posix.join(place.info.paths.run, `cp-${systemRandom.id().slice(0, 8)}.tar`);
    this.#signal = signal;
  }

  async in(from: string, to: string): Promise<void> {
    const { provider, info } = this.#place;
    await this.#onThisMachine(PACK, from);
    await provider.upload(info.id, this.#here, this.#archive, this.#call());
    await this.#inSandbox(UNPACK, to);
  }

  async out(from: string, to: string): Promise<void> {
    const { provider, info } = this.#place;
    await this.#inSandbox(PACK, from);
    await provider.download(info.id, this.#archive, this.#here, this.#call());
    await provider.exec(info.id, { argv: ['rm', '-f', '--', this.#archive] }, this.#call());
    await this.#onThisMachine(UNPACK, to);
  }

  /** Relative paths begin where the session works. */
  async #inSandbox(script: string, path: string): Promise<void> {
    const { provider, info, workdir, user = '' } = this.#place;
    const argv = ['sh', '-c', script, this.#archive, posix.resolve(workdir, path), folderOnly(path), user];
    const { exitCode, stderr } = await provider.exec(info.id, { argv }, this.#call());
    if (exitCode !== 0) throw failure('in the sandbox', exitCode, stderr);
  }

  async #onThisMachine(script: string, path: string): Promise<void> {
    const child = spawn('sh', ['-c', script, this.#here, resolve(path), folderOnly(path)], {
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: this.#signal,
    });
    let stderr = '';
    child.stderr.on('data', (piece: Buffer) => (stderr += piece.toString()));
    const exitCode = await new Promise<number>((done) => {
      child
        .once('close', (code) => done(code ?? 1))
        .once('error', (error) => {
          stderr += error.message;
          done(1);
        });
    });
    if (exitCode !== 0) throw failure('on this machine', exitCode, stderr);
  }

  #call() {
    return { timeoutMs: COPY_MS, signal: this.#signal };
  }
}

/** `$2` of the scripts. */
function folderOnly(path: string): string {
  return path.endsWith('/') ? 'folder' : '';
}

function failure(where: string, exitCode: number, stderr: string): DvoError {
  const said = stderr.trim().slice(-500);
  return new DvoError('remote', `not copied; ${where}: ${said === '' ? `exit code ${exitCode}` : said}`);
}

/** Aborts when the person leaves, so that what was begun on this machine is tidied up. */
function leaving(opened: AsyncDisposableStack): AbortSignal {
  const left = new AbortController();
  const leave = (): void => left.abort(new Error('interrupted'));
  process.once('SIGINT', leave).once('SIGTERM', leave);
  opened.defer(() => void process.off('SIGINT', leave).off('SIGTERM', leave));
  return left.signal;
}
