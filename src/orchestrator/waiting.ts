/** Who waits in the queue without being served, and why, in words. */
import type { WaitingView } from '../ops/view.ts';
import type { Admission } from '../session/admission.ts';
import { hinted, PAUSED, REFUSED } from './advice.ts';
import type { Motor } from './motor.ts';

/** In the order in which they will be claimed. */
export function waitingLine(motor: Motor, scrub: (text: string) => string): readonly WaitingView[] {
  const general = generalReason(motor, scrub);
  let { free } = motor.gate;
  const line: WaitingView[] = [];
  for (const entry of motor.queue.available()) {
    const { sessionId, createdAt } = entry;
    const verdict = motor.admissions.verdict(entry);
    if (verdict === 'served') continue;
    const who = createdAt === undefined ? { sessionId } : { sessionId, createdAt };
    if (verdict.kind === 'refused') {
      const because = motor.admissions.failures(sessionId)?.reason;
      line.push({ ...who, ...refusal(verdict, because === undefined ? because : scrub(because)) });
    } else if (general === undefined && free > 0) {
      free -= 1;
      line.push({ ...who, reason: 'next', why: 'it is being claimed' });
    } else {
      line.push({ ...who, ...(general ?? noSlot(motor)) });
    }
  }
  return line;
}

type Reason = Omit<WaitingView, 'sessionId' | 'createdAt'>;

function refusal(refused: Admission & { readonly kind: 'refused' }, because: string | undefined): Reason {
  const { why, hint } = REFUSED[refused.refusal];
  const { until, refusal: reason } = refused;
  if (until === undefined) return { reason, why, ...hinted(hint) };
  const clock = new Date(until).toISOString().slice(0, 19);
  const detail = because === undefined ? '' : `: ${because}`;
  return { reason, why: `${why} until ${clock}Z${detail}`, until, ...hinted(hint) };
}

/** What keeps everybody waiting alike. */
function generalReason({ gate, records }: Motor, scrub: (text: string) => string): Reason | undefined {
  const [pause] = gate.pauses;
  if (pause !== undefined) {
    const [name, detail] = pause;
    return { reason: 'paused', why: `admission is paused: ${scrub(detail)}`, ...hinted(PAUSED[name]) };
  }
  if (records.trouble === undefined) return undefined;
  return {
    reason: 'paused',
    why: `admission is paused: ${scrub(records.trouble)}`,
    ...hinted(PAUSED.state),
  };
}

function noSlot({ gate }: Motor): Reason {
  return {
    reason: 'no-slot',
    why: `no free slot: ${gate.used} of ${gate.max} are taken`,
    hint: 'it is claimed when one comes free; MAX_CONCURRENT_SESSIONS sets how many there are',
  };
}
