/**
 * One order carried out without a daemon: under the daemon's own lock, by the daemon's own steps. Whatever it cannot
 * finish stands in the index, and the next daemon finishes it.
 */
import type { OrderAnswer } from '../ops/orders.ts';
import type { StatusView } from '../ops/view.ts';
import type { Order } from '../session/session.ts';
import { giveOrder } from './give-order.ts';
import { openMotor, type MotorOptions } from './open-motor.ts';
import { statusOfIndex } from './status.ts';

export interface Errand extends AsyncDisposable {
  readonly answer: OrderAnswer;
  /** The daemon's view, without the queue. Its session bears the order until it is done. */
  view(): StatusView;
}

/** Steps in progress get most of this to end by themselves when the errand is ended early. */
const GRACE_MS = 5_000;

/**
 * Begins it; disposing ends it, done or not.
 * @throws DvoError `state`, `locked`, `config`; ApiError when the queue cannot be asked: the order stays
 */
export async function startErrand(options: MotorOptions, sessionId: string, order: Order): Promise<Errand> {
  await using opened = new AsyncDisposableStack();
  const { motor, identity } = await openMotor(options, opened);
  opened.defer(() => motor.stop('detach', GRACE_MS));
  const answer = await giveOrder({ ...options, records: motor.records, identity }, sessionId, order);
  if (answer === 'ordered') await motor.attend(sessionId);
  const { outpostId, acceptorId } = identity;
  const { clock, redactor } = options;
  const scrub = (text: string): string => redactor.scrub(text);
  const closing = opened.move();
  return {
    answer,
    view: () =>
      statusOfIndex(motor.records, motor.history, { outpostId, acceptorId, now: clock.now(), scrub }),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}
