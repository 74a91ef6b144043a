/** Runs `dvo` as an operator would, beside a stage. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function dvo(
  env: Readonly<Record<string, string | undefined>>,
  args: readonly string[],
  input?: string | Uint8Array,
): Promise<Ended> {
  return await new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { env: { ...env } }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code), out, err });
    });
    child.stdin?.end(input ?? '');
  });
}
