/** Structured logs. Messages are constant; what varies is in the fields. Nothing secret gets past the redactor. */
import { pino, type Logger as Pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Redactor } from './secret.ts';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A logger that adds `fields` to each of its lines. */
  child(fields: LogFields): Logger;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly redactor: Redactor;
  /** Takes one finished line, newline included. */
  readonly write: (line: string) => void;
  readonly color?: boolean;
}

export function createLogger(options: LogOptions): Logger {
  const prettify =
    options.format === 'pretty'
      ? prettyFactory({
          colorize: options.color ?? false,
          translateTime: 'HH:MM:ss.l',
          ignore: 'pid,hostname',
        })
      : (line: string): string => line;
  const sink = { write: (line: string): void => options.write(options.redactor.scrub(prettify(line))) };
  return wrap(pino({ level: options.level, base: null, errorKey: 'error' }, sink));
}

export const silentLogger: Logger = wrap(pino({ level: 'silent' }));

function wrap(inner: Pino): Logger {
  return {
    debug: (message, fields) => inner.debug(fields ?? {}, message),
    info: (message, fields) => inner.info(fields ?? {}, message),
    warn: (message, fields) => inner.warn(fields ?? {}, message),
    error: (message, fields) => inner.error(fields ?? {}, message),
    child: (fields) => wrap(inner.child(fields)),
  };
}
