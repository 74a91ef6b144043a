/** A session as people name it: its id, its sandbox's dvo-name, or the beginning of either. Pure. */
import { DvoError } from '../lib/errors.ts';

interface Named {
  readonly sessionId: string;
  readonly name: string;
}

/**
 * Undefined: none is called so.
 * @throws DvoError `config` when several begin so, or `wanted` is blank: as an unset variable of a script is
 */
export function findSession<Session extends Named>(
  sessions: readonly Session[],
  wanted: string,
): Session | undefined {
  if (wanted.trim() === '')
    throw new DvoError('config', 'the session’s name is empty; dvo status lists the sessions');
  const whole = sessions.find(({ sessionId, name }) => sessionId === wanted || name === wanted);
  if (whole !== undefined) return whole;
  const [first, ...others] = sessions.filter(
    ({ sessionId, name }) => sessionId.startsWith(wanted) || name.startsWith(wanted),
  );
  if (others.length === 0) return first;
  const ids = [first, ...others].map((one) => one?.sessionId).join(', ');
  throw new DvoError('config', `several sessions begin with ${wanted}: ${ids}`);
}
