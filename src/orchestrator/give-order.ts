/** A person's wish, written into the record of its session. The planner carries it out like a wish of the queue. */
import type { Clock } from '../lib/clock.ts';
import type { Logger } from '../lib/log.ts';
import type { OrderAnswer } from '../ops/orders.ts';
import { amend } from '../session/amend.ts';
import type { Order } from '../session/session.ts';
import { isDone } from '../session/wish.ts';
import type { Identity } from './context.ts';
import type { Records } from './records.ts';

export interface OrderParts {
  readonly records: Records;
  readonly identity: Identity;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * On disk when it answers; the next look at the session carries it out.
 * @throws DvoError `state`: not on disk, so perhaps not carried out after a crash
 */
export async function giveOrder(
  { records, identity, clock, log }: OrderParts,
  sessionId: string,
  order: Order,
): Promise<OrderAnswer> {
  const name = identity.nameOf(sessionId);
  const record = records.get(name);
  if (record === undefined) return 'unknown';
  if (isDone(record, order)) return 'done';
  const now = clock.now();
  records.put(name, amend(record, { set: { order, orderedAt: now } }, now));
  await records.commit();
  log.info('ordered by hand', { session: sessionId, sandbox: name, order });
  return 'ordered';
}
