/** How much of a log is wanted, as flags say it. Pure. */
import { z } from 'zod';
import { DvoError } from '../../lib/errors.ts';

export interface Amount {
  readonly tailLines?: number;
  /** Milliseconds since the epoch. */
  readonly since?: number;
}

/** Without an offset it is in this machine's time. */
const DATE = z.union([z.iso.datetime({ offset: true, local: true }), z.iso.date()]);
const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * @param now milliseconds since the epoch
 * @throws DvoError `config`
 */
export function amountOf(
  { tail, since }: { readonly tail?: string; readonly since?: string },
  now: number,
): Amount {
  return {
    ...(tail === undefined ? {} : { tailLines: lines(tail) }),
    ...(since === undefined ? {} : { since: moment(since, now) }),
  };
}

function lines(tail: string): number {
  if (/^\d{1,7}$/.test(tail)) return Number(tail);
  throw new DvoError('config', '--tail takes a number of lines, like 100');
}

function moment(since: string, now: number): number {
  const [, amount, unit = ''] = /^(\d{1,7})([smhd])$/.exec(since) ?? [];
  if (amount !== undefined) return now - Number(amount) * (UNIT_MS[unit] ?? 0);
  if (DATE.safeParse(since).success) return Date.parse(since);
  throw new DvoError(
    'config',
    '--since takes a time ago, like 90s, 10m, 2h or 1d, or a date and time in ISO 8601',
  );
}
