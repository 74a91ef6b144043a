/** A value that must not be printed. `reveal()` is the only way to its text, so every use can be searched for. */
import { inspect } from 'node:util';

const REDACTED = '[redacted]';

export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return REDACTED;
  }

  toJSON(): string {
    return REDACTED;
  }

  [inspect.custom](): string {
    return REDACTED;
  }
}

/** Scrubbing shorter texts would eat ordinary words. */
const SHORTEST = 6;

/**
 * The set of texts that must never leave the process. Connect tokens join it as they arrive.
 * `scrub` is the second net under `Secret`: it catches a secret that a server or a library echoes in a message.
 */
export class Redactor {
  readonly #kept = new Set<string>();
  readonly #passing = new Set<string>();
  readonly #limit: number;

  /** @param limit how many passing secrets are remembered; the oldest goes first */
  constructor(limit = 4_000) {
    this.#limit = limit;
  }

  /** A secret that is configured: never forgotten. Texts under six characters are not remembered. */
  keep(secret: string): void {
    if (secret.length >= SHORTEST) this.#kept.add(secret);
  }

  /** A secret of which there will be ever more, as of connect tokens. Texts under six characters are not remembered. */
  add(secret: string): void {
    if (secret.length < SHORTEST) return;
    this.#passing.delete(secret);
    this.#passing.add(secret);
    if (this.#passing.size > this.#limit) {
      const [oldest] = this.#passing;
      if (oldest !== undefined) this.#passing.delete(oldest);
    }
  }

  scrub(text: string): string {
    let clean = text;
    for (const secrets of [this.#kept, this.#passing]) {
      for (const secret of secrets) {
        if (clean.includes(secret)) clean = clean.replaceAll(secret, REDACTED);
      }
    }
    return clean;
  }
}
