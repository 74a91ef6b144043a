/** Records by name, each with its JSON bytes kept, so that saving ten thousand of them copies bytes and no more. */

export class Table<Row extends object> {
  readonly #rows = new Map<string, { readonly row: Row; readonly json: Buffer; readonly content: string }>();

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
    const json = Buffer.from(`${JSON.stringify(name)}:${JSON.stringify(row)}`);
    this.#rows.set(name, { row, content, json });
    return true;
  }

  /** False when there was none. */
  delete(name: string): boolean {
    return this.#rows.delete(name);
  }

  /** The rows as one JSON object, in pieces to be joined. */
  *json(): IterableIterator<Buffer> {
    yield OPEN;
    let first = true;
    for (const { json } of this.#rows.values()) {
      if (!first) yield SEPARATOR;
      first = false;
      yield json;
    }
    yield CLOSE;
  }
}

const OPEN = Buffer.from('{');
const SEPARATOR = Buffer.from(',\n');
const CLOSE = Buffer.from('}');
