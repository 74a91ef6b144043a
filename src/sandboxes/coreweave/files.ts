/**
 * Putting a file into a sandbox whole or not at all: the platform's own writes need the folder, and a stream that breaks
 * leaves half a file, so it is written beside its place, measured, and moved.
 */
import { ProviderError } from '../provider.ts';
import type { SdkRequest, SdkSandbox } from './sdk.ts';

export interface Content {
  readonly size: number;
  /** Writes it to `path` in the sandbox, whose folder exists. */
  readonly write: (path: string) => Promise<void>;
}

/** Parts of earlier tries go first: they may be large. */
const MAKE_ROOM = `mkdir -p -- "$(dirname -- "$1")" && rm -f -- "$1".dvo-part.*`;
const MOVE = `[ $(($(wc -c < "$1"))) -eq "$2" ] && mv -f -- "$1" "$3"`;

/** @param unique makes the temporary name one that no other try uses */
export async function putFile(
  handle: SdkSandbox,
  path: string,
  content: Content,
  unique: string,
  sdk: SdkRequest,
): Promise<void> {
  const part = `${path}.dvo-part.${unique}`;
  await sh(handle, MAKE_ROOM, [path], 'make room for a file', sdk);
  await content.write(part);
  await sh(handle, MOVE, [part, String(content.size), path], 'put a file in its place', sdk);
}

async function sh(
  handle: SdkSandbox,
  script: string,
  args: readonly string[],
  what: string,
  sdk: SdkRequest,
): Promise<void> {
  const { exitCode, stderr } = await handle.exec(['/bin/sh', '-c', script, 'dvo', ...args], sdk);
  if (exitCode === 0) return;
  // 137 is how a container that dies under a command looks.
  const kind = exitCode === 137 ? 'ambiguous' : 'invalid';
  throw new ProviderError(kind, `cannot ${what} (exit ${exitCode}): ${stderr.trim().slice(-300)}`);
}
