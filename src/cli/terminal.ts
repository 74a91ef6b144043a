/** What a command has of the world outside: words go out here, and nowhere else. */
import type { Environment } from '../config/reader.ts';

export interface Terminal {
  readonly env: Environment;
  /** To standard output. */
  readonly out: (text: string) => void;
  /** To standard error. */
  readonly err: (text: string) => void;
  /** Whether people watch standard output as it is written. */
  readonly interactive: boolean;
  /** Colours are wanted: a terminal, and no NO_COLOR. */
  readonly color: boolean;
  /** For commands that talk with people, or hand the streams on to a command in a sandbox. */
  readonly streams: Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr'>;
}

/**
 * Exit codes, as documented in docs/operations. notRun: a command in a sandbox did not get as far as a code of its own.
 * brokenPipe: the reader of our output has gone; as of a command that SIGPIPE ended.
 */
export const EXIT = { ok: 0, failed: 1, config: 2, locked: 3, notRun: 125, brokenPipe: 141 } as const;
/** One of these, or that of a command in a sandbox. */
export type ExitCode = number;

/** `text` in a colour (an SGR code), where colours are wanted. */
export function paint(color: boolean, code: number, text: string): string {
  return color ? `\u001b[${code}m${text}\u001b[0m` : text;
}

/**
 * For what must come to its end also when nobody reads its output any more. For good: the news of a write that failed
 * come late.
 * @param onFirst told once, of standard output only
 */
export function goOnUnheard({ streams }: Terminal, onFirst: (error: Error) => void = () => undefined): void {
  streams.stdout.once('error', onFirst).on('error', () => undefined);
  streams.stderr.on('error', () => undefined);
}

/** PATH, for what is started on this machine. */
export function searchPath({ env }: Pick<Terminal, 'env'>): string {
  return env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
}
