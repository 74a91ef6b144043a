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

/**
 * The set of texts that must never leave the process. Connect tokens join it as they arrive.
 * `scrub` is the second net under `Secret`: it catches a secret that a server or a library echoes in a message.
 */
export class Redactor {
  readonly #secrets = new Set<string>();
  readonly #limit: number;

  /** @param limit how many secrets are remembered; the oldest goes first. Connect tokens arrive for ever. */
  constructor(limit = 4_000) {
    this.#limit = limit;
  }

  /** Texts under six characters are not remembered: scrubbing them would eat ordinary words. */
  add(secret: string): void {
    if (secret.length < 6) return;
    this.#secrets.delete(secret);
    this.#secrets.add(secret);
    if (this.#secrets.size > this.#limit) {
      const [oldest] = this.#secrets;
      if (oldest !== undefined) this.#secrets.delete(oldest);
    }
  }

  scrub(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) {
      if (clean.includes(secret)) clean = clean.replaceAll(secret, REDACTED);
    }
    return clean;
  }
}
