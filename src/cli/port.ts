/** A port as a flag names it. Pure. */
import { DvoError } from '../lib/errors.ts';

/** 0 picks one. @throws DvoError `config` */
export function portOf(flag: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  throw new DvoError('config', `${flag} is ${JSON.stringify(text)}; it must be a number from 0 to 65535`);
}
