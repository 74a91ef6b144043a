/** A secret given by value, or by a file that may change while we run (a rotated token, a remounted volume). */
import { describeError } from '../lib/errors.ts';
import { Secret, type Redactor } from '../lib/secret.ts';

export interface SecretSource {
  /** The secret as it is now. A file that is missing or empty for a moment leaves the last good value in force. */
  read(): Secret;
}

export interface SecretFiles {
  /** The whole file as text. Throws when it cannot be read. */
  read(path: string): string;
}

export function fixedSecret(value: string, redactor: Redactor): SecretSource {
  redactor.keep(value);
  const secret = new Secret(value);
  return { read: () => secret };
}

/**
 * Reads the file at each use: it is a few bytes, and no time stamp tells of a symlink swapped by Kubernetes.
 * @param onTrouble called when the file cannot be used, once per cause
 */
export function secretFile(
  path: string,
  files: SecretFiles,
  redactor: Redactor,
  initial: string,
  onTrouble: (why: string) => void,
): SecretSource {
  let current = initial;
  let trouble: string | undefined;
  redactor.keep(initial);
  return {
    read() {
      const now = readOrWhy(path, files);
      if ('value' in now) {
        trouble = undefined;
        if (now.value !== current) redactor.keep(now.value);
        current = now.value;
      } else if (now.why !== trouble) {
        trouble = now.why;
        onTrouble(now.why);
      }
      return new Secret(current);
    },
  };
}

/** The file's text without surrounding white space, or why there is none. */
export function readOrWhy(
  path: string,
  files: SecretFiles,
): { readonly value: string } | { readonly why: string } {
  try {
    const value = files.read(path).trim();
    return value === '' ? { why: `${path} is empty` } : { value };
  } catch (error) {
    return { why: describeError(error) };
  }
}
