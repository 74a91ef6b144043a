/** The version that this is, from the package.json two folders up, in the sources as in the image. */
import { readFileSync } from 'node:fs';
import { z } from 'zod';

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}
