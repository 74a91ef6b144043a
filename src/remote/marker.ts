/**
 * Reading a sandbox's marker. Whoever works in the sandbox can write to the file, so no more of it is taken than a
 * marker can be long.
 */
import { z } from 'zod';
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import { ProviderError } from '../sandboxes/provider.ts';
import type { Marker, Target } from './port.ts';
import type { ScriptRunner, Words } from './script.ts';

/** A marker has some hundred bytes. */
export const LARGEST_MARKER_BYTES = 65_536;

const MARKER = z.object({
  version: z.literal(1),
  sessionId: z.string(),
  outpostId: z.string(),
  acceptorId: z.string(),
  name: z.string(),
  sandboxId: z.string(),
});

/**
 * Undefined only when there is no marker file. A damaged one proves that something was put into the volume, so it must
 * never pass for none.
 *
 * @throws DvoError `remote` when it is damaged, or longer than a marker can be; ProviderError `ambiguous` when the
 *   sandbox gave no answer; what the provider's exec throws
 */
export async function readMarker(
  scripts: ScriptRunner,
  target: Target,
  call: Call,
): Promise<Marker | undefined> {
  const [verb, text = ''] = await read(scripts, target, call);
  if (verb === 'none') return undefined;
  const bytes = Buffer.from(text, 'base64');
  try {
    if (bytes.byteLength > LARGEST_MARKER_BYTES) throw new RangeError('it is too long');
    return MARKER.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (error) {
    throw new DvoError('remote', 'the marker in the volume is damaged', { cause: error });
  }
}

async function read(scripts: ScriptRunner, target: Target, call: Call): Promise<Words> {
  const values = {
    file: `${target.paths.volume}/.dvo/session.json`,
    most: String(LARGEST_MARKER_BYTES + 1),
  };
  try {
    return await scripts.run(target.sandboxId, { name: 'read marker', values, body: READ }, call);
  } catch (error) {
    // `remote` would say that the marker is damaged, and nothing was seen of it.
    if (error instanceof DvoError && error.code === 'remote')
      throw new ProviderError('ambiguous', error.message, { cause: error });
    throw error;
  }
}

/** What is there and is no file is a damaged marker too. To read a pipe or a device might never end. */
const READ = `
[ -e "$file" ] || [ -L "$file" ] || finish none
[ -f "$file" ] || finish file
text=$(set -o pipefail; head -c "$most" -- "$file" | base64 -w 0) || fail cannot-read-marker
finish file "$text"`;
