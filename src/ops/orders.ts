/** `POST /api/orders`: a command beside the daemon says what a person wants of one session. What that does is handed in. */
import { z } from 'zod';
import { describeError, DvoError } from '../lib/errors.ts';
import { parseJson } from '../lib/json.ts';
import { ORDERS, type Order } from '../session/session.ts';
import { readBody } from './body.ts';
import { sendJson, type Route } from './server.ts';

/** What is asked, as JSON. */
const ORDER_REQUEST = z.object({ sessionId: z.string(), order: z.enum(ORDERS) });

/**
 * What is answered. done: nothing is left to do for it · unknown: there is no record of the session · missing: `error` says
 * why.
 */
export const ORDER_ANSWER = z.object({
  answer: z.enum(['ordered', 'done', 'unknown']).exactOptional(),
  error: z.string().exactOptional(),
});
export type OrderAnswer = NonNullable<z.infer<typeof ORDER_ANSWER>['answer']>;

/** @param give answers when the order is on disk; throws DvoError `state` when it is not */
export function ordersRoute(give: (sessionId: string, order: Order) => Promise<OrderAnswer>): Route {
  return {
    method: 'POST',
    path: '/api/orders',
    access: 'control',
    async handle(request, response) {
      const asked = ORDER_REQUEST.safeParse(parseJson((await readBody(request)) ?? ''));
      if (!asked.success) {
        return sendJson(response, 400, JSON.stringify({ error: z.prettifyError(asked.error) }));
      }
      try {
        const answer = await give(asked.data.sessionId, asked.data.order);
        sendJson(response, answer === 'unknown' ? 404 : 200, JSON.stringify({ answer }));
      } catch (error) {
        if (!(error instanceof DvoError && error.code === 'state')) throw error;
        sendJson(response, 503, JSON.stringify({ error: describeError(error) }));
      }
    },
  };
}
