/** The one function that puts a value into a shell script. */
import { DvoError } from '../lib/errors.ts';

/**
 * `value` as one word of sh or bash, given back byte for byte by the shell, whatever it holds.
 * @throws DvoError `internal` for a NUL, which no shell word can hold, and for half a surrogate pair, which UTF-8 cannot
 */
export function quote(value: string): string {
  if (value.includes('\0')) throw new DvoError('internal', 'a shell word cannot hold a NUL character');
  if (!value.isWellFormed()) throw new DvoError('internal', 'a shell word cannot hold ill-formed Unicode');
  return `'${value.replaceAll("'", `'\\''`)}'`;
}

/** `name='value'` lines for the head of a script. */
export function assignments(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${quote(value)}`)
    .join('\n');
}
