/** What the test tells the daemon process, through a file that is looked at again at every point. */
import { readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Rules } from '../../../src/session/rules.ts';

export interface Order {
  /** Where to die: when this session passes this point. */
  readonly kill?: { readonly sessionId: string; readonly point: string };
  /** The platform will end this sandbox soon. */
  readonly endsSoon?: string;
  /** A serving session whose newest archive is older than this is archived. Milliseconds since the epoch. */
  readonly archiveSince?: number;
  readonly rules?: Partial<Rules>;
}

const orderFile = (folder: string): string => join(folder, 'order.json');
export const traceFile = (folder: string): string => join(folder, 'trace');

/** Replaces the order whole. */
export async function give(folder: string, order: Order): Promise<void> {
  await writeFile(`${orderFile(folder)}.new`, JSON.stringify(order));
  await rename(`${orderFile(folder)}.new`, orderFile(folder));
}

export function take(folder: string): Order {
  return JSON.parse(readFileSync(orderFile(folder), 'utf8')) as Order;
}
