/** What happened, for the one who has to understand a violation. */

interface Line {
  readonly atMs: number;
  readonly who: string;
  readonly text: string;
  readonly fields: unknown;
}

export class History {
  readonly #lines: Line[] = [];

  add(atMs: number, who: string, text: string, fields?: unknown): void {
    this.#lines.push({ atMs, who, text, fields });
  }

  get size(): number {
    return this.#lines.length;
  }

  lines(): readonly string[] {
    return this.#lines.map(({ atMs, who, text, fields }) => {
      const details = fields === undefined ? '' : ` ${JSON.stringify(fields)}`;
      return `${(atMs / 1_000).toFixed(3).padStart(10)} ${who.padEnd(16)} ${text}${details}`;
    });
  }
}
