/** Records by name, each with its JSON text kept, so that saving ten thousand of them joins strings and no more. */

export class Table<Row extends object> {
  readonly #rows = new Map<string, { readonly row: Row; readonly json: string; readonly content: string }>();

  get size(): number {
    return this.#rows.size;
  }

  get(name: string): Row | undefined {
    return this.#rows.get(name)?.row;
  }

  *entries(): IterableIterator<[string, Row]> {
    for (const [name, { row }] of this.#rows) yield [name, row];
  }

  /** False when only `updatedAt` differs from what is there. */
  put(name: string, row: Row): boolean {
    const content = JSON.stringify({ ...row, updatedAt: 0 });
    if (this.#rows.get(name)?.content === content) return false;
    this.#rows.set(name, { row, content, json: `${JSON.stringify(name)}:${JSON.stringify(row)}` });
    return true;
  }

  /** False when there was none. */
  delete(name: string): boolean {
    return this.#rows.delete(name);
  }

  json(): string {
    const texts: string[] = [];
    for (const { json } of this.#rows.values()) texts.push(json);
    return `{${texts.join(',\n')}}`;
  }
}
