/**
 * Setting variables in a `.env` file: their lines are replaced, all others kept byte by byte, the file written whole or
 * not at all, readable by its owner only. No copy of the old file is left: it may hold a token.
 */
import { constants } from 'node:fs';
import { access, realpath } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { describeError, DvoError, systemCode } from '../../lib/errors.ts';
import type { Disk } from '../../state/disk.ts';

type Values = Readonly<Record<string, string>>;

const ASSIGNMENT = /^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=/;

/** `text` with each variable set once: at its first line, or at the end. */
export function withVariables(text: string, values: Values): string {
  const left = new Map(Object.entries(values));
  const lines = text.split(/(?<=\n)/).flatMap((line) => {
    const name = nameIn(line);
    if (name === undefined || !Object.hasOwn(values, name)) return [line];
    const value = left.get(name);
    // A second assignment would win over the first.
    if (value === undefined) return [];
    left.delete(name);
    return [`${name}=${value}\n`];
  });
  const kept = lines.join('');
  const end = kept === '' || kept.endsWith('\n') || left.size === 0 ? '' : '\n';
  return `${kept}${end}${[...left].map(([name, value]) => `${name}=${value}\n`).join('')}`;
}

/** The names that `text` gives a value to. */
export function namesSetIn(text: string): ReadonlySet<string> {
  const lines = text.split('\n').filter((line) => !/=[ \t]*(?:""|'')?[ \t\r]*$/.test(line));
  return new Set(lines.flatMap((line) => nameIn(line) ?? []));
}

export class EnvFile {
  /** Where the text is: the file itself when the given path is a symbolic link. */
  readonly path: string;
  readonly #disk: Disk;

  private constructor(path: string, disk: Disk) {
    this.path = path;
    this.#disk = disk;
  }

  /** @throws DvoError `config`: its folder cannot be written */
  static async at(given: string, disk: Disk): Promise<EnvFile> {
    try {
      const path = await behindLinks(resolve(given));
      await access(dirname(path), constants.W_OK);
      return new EnvFile(path, disk);
    } catch (error) {
      throw new DvoError('config', `${given} cannot be written: ${describeError(error)}`, { cause: error });
    }
  }

  /** Empty when there is no such file. @throws DvoError `state`; `config` when it is no text */
  async read(): Promise<string> {
    const bytes = await this.#disk.read(this.path);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes ?? new Uint8Array());
    } catch (error) {
      throw new DvoError('config', `${this.path} is no text in UTF-8`, { cause: error });
    }
  }

  /** Read anew at this moment, so that what was changed meanwhile is kept. @throws DvoError `state`, `config` */
  async set(values: Values): Promise<void> {
    const text = withVariables(await this.read(), values);
    await this.#disk.replace(this.path, new TextEncoder().encode(text));
  }
}

function nameIn(line: string): string | undefined {
  return ASSIGNMENT.exec(line)?.[1];
}

async function behindLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return path;
    throw error;
  }
}
