/** A file of the daemon's, read from outside while it may be written. */
import { readFile } from 'node:fs/promises';
import type { z } from 'zod';
import { systemCode } from '../../lib/errors.ts';

/** Undefined: there is none, or not of this shape. */
export async function readJson<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    const parsed = schema.safeParse(JSON.parse(await readFile(path, 'utf8')));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    // Being made or being removed right now.
    if (systemCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
