/** Reads variables one by one, and keeps what is wrong with them until all have been read. */
import type { z } from 'zod';
import type { Redactor } from '../lib/secret.ts';
import { fixedSecret, readOrWhy, secretFile, type SecretFiles, type SecretSource } from './secret-source.ts';
import { VARIABLES } from './variables.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigSources {
  readonly env: Environment;
  readonly files: SecretFiles;
  readonly redactor: Redactor;
  /** Whether people read the log as it is written. */
  readonly terminal: boolean;
  /** A secret's file cannot be read any more; the last value stays in force. */
  readonly onSecretTrouble: (variable: string, why: string) => void;
}

/** What is wrong with one variable, in words that show no secret. */
export interface Problem {
  readonly variable: string;
  readonly text: string;
}

export class Reader {
  readonly warnings: string[] = [];
  readonly #problems: Problem[] = [];
  readonly #sources: ConfigSources;

  constructor(sources: ConfigSources) {
    this.#sources = sources;
  }

  get terminal(): boolean {
    return this.#sources.terminal;
  }

  problem(variable: string, value: string | undefined, right: string): void {
    // Scrubbed before it is cut: half a secret would not be found.
    const clean = value === undefined ? undefined : this.#sources.redactor.scrub(withoutUserInfo(value));
    const shown = clean === undefined ? 'is not set' : `is ${JSON.stringify(clean.slice(0, 200))}`;
    this.wrong(variable, `${variable} ${shown}; it must be ${right}`);
  }

  /** A problem in words of its own, for values that must not be shown. */
  wrong(variable: string, text: string): void {
    this.#problems.push({ variable, text: this.#sources.redactor.scrub(text) });
  }

  /** The variable's value, or the default's when it is unset or wrong (which is then reported). */
  value<T>(variable: string, schema: z.ZodType<T, string>, fallback: string): T {
    const given = this.#get(variable);
    if (given !== undefined) {
      const parsed = schema.safeParse(given);
      if (parsed.success) return parsed.data;
      this.problem(variable, given, reasons(parsed.error));
    }
    return schema.parse(fallback);
  }

  required(variable: string, schema: z.ZodType<string, string>, right: string): string {
    const given = this.#get(variable);
    if (given === undefined) this.problem(variable, undefined, right);
    return this.value(variable, schema, '');
  }

  maybe<Key extends string, T>(
    key: Key,
    variable: string,
    schema: z.ZodType<T, string>,
  ): { readonly [K in Key]?: T } {
    const given = this.#get(variable);
    if (given === undefined) return {};
    const parsed = schema.safeParse(given);
    if (!parsed.success) this.problem(variable, given, reasons(parsed.error));
    return parsed.success ? keyed(key, parsed.data) : {};
  }

  list(variable: string, schema: z.ZodType<string, string>): readonly string[] {
    const items = (this.#get(variable) ?? '').split(/[\s,]+/).filter((item) => item !== '');
    for (const item of items) {
      const parsed = schema.safeParse(item);
      if (!parsed.success) this.problem(variable, item, reasons(parsed.error));
    }
    return items;
  }

  requiredSecret(variable: string): SecretSource {
    const source = this.#secret(variable);
    if (source === 'unset')
      this.problem(variable, undefined, `set, or ${variable}_FILE must name a file that holds it`);
    return typeof source === 'object' ? source : fixedSecret('', this.#sources.redactor);
  }

  maybeSecret<Key extends string>(key: Key, variable: string): { readonly [K in Key]?: SecretSource } {
    const source = this.#secret(variable);
    return typeof source === 'object' ? keyed(key, source) : {};
  }

  /** All that is wrong with what has been read. */
  finish(): readonly Problem[] {
    const { env } = this.#sources;
    const known = new Set(
      VARIABLES.flatMap((one) => (one.secret === true ? [one.name, `${one.name}_FILE`] : [one.name])),
    );
    for (const given of Object.keys(env)) {
      if (
        /^(DVO_|SANDBOX_|OUTPOST_|SNAPSHOT_|SHUTDOWN_|DEVIN_(OUTPOST|WORKER))/.test(given) &&
        !known.has(given)
      ) {
        this.warnings.push(`${given} is set, but dvo knows no such variable`);
      }
    }
    return this.#problems;
  }

  #secret(variable: string): SecretSource | 'unset' | 'wrong' {
    const { files, redactor, onSecretTrouble } = this.#sources;
    const value = this.#get(variable);
    const file = this.#get(`${variable}_FILE`);
    if (value !== undefined) redactor.keep(value);
    if (value !== undefined && file !== undefined) {
      this.wrong(variable, `${variable} and ${variable}_FILE are both set; only one may be`);
      return 'wrong';
    }
    if (value !== undefined) return this.#printable(variable, value) ? fixedSecret(value, redactor) : 'wrong';
    if (file === undefined) return 'unset';
    const read = readOrWhy(file, files);
    if ('why' in read) {
      this.#unreadable(`${variable}_FILE`, file, read.why);
      return 'wrong';
    }
    redactor.keep(read.value);
    if (!this.#printable(variable, read.value)) return 'wrong';
    return secretFile(file, files, redactor, read.value, (why) => onSecretTrouble(variable, why));
  }

  /** What begins like no path may be the secret itself, and `why` names it too. */
  #unreadable(variable: string, file: string, why: string): void {
    const right = 'a file that holds the secret';
    if (/^(~|\.{1,2})?\//.test(file)) this.problem(variable, file, `${right} (${why})`);
    else
      this.wrong(
        variable,
        `${variable} is no path that can be read (its value is not shown); it must be ${right}, as in /run/secrets/token`,
      );
  }

  /** A token travels in an HTTP header, so it is visible ASCII. */
  #printable(variable: string, value: string): boolean {
    if (/^[\x21-\x7e]+$/.test(value)) return true;
    this.wrong(
      variable,
      `${variable} holds white space or other characters that no token has (its value is not shown)`,
    );
    return false;
  }

  #get(variable: string): string | undefined {
    const given = this.#sources.env[variable]?.trim();
    return given === '' ? undefined : given;
  }
}

function keyed<Key extends string, T>(key: Key, value: T): { readonly [K in Key]?: T };
function keyed(key: string, value: unknown): Readonly<Record<string, unknown>> {
  return { [key]: value };
}

/** Without what stands before a URL's host: a password or a token, mostly. */
function withoutUserInfo(value: string): string {
  return value.replace(/(?<=:\/\/)\S*@|^[^/\s]*:[^/\s]\S*@/, '[redacted]@');
}

function reasons(error: z.ZodError): string {
  return error.issues.map((issue) => issue.message).join(' and ');
}
