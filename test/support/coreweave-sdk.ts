/**
 * The real SDK and the gateway emulator, when the machine has them: DVO_TEST_CWSANDBOX is the folder of a built
 * `@coreweave/cwsandbox` (or the package is installed here), DVO_TEST_CW_GATEWAY the folder of the emulator, installed.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createInterface } from 'node:readline';
import type { ImportModule } from '../../src/sandboxes/coreweave/client.ts';

const sdkFolder = process.env['DVO_TEST_CWSANDBOX'] ?? '';
const gatewayFolder = process.env['DVO_TEST_CW_GATEWAY'] ?? '';

/** The package's own root, or undefined. */
export function sdkRoot(): string | undefined {
  if (sdkFolder !== '') return existsSync(join(sdkFolder, 'package.json')) ? sdkFolder : undefined;
  const installed = new URL('../../node_modules/@coreweave/cwsandbox', import.meta.url).pathname;
  return existsSync(installed) ? installed : undefined;
}

/** Why the tests on the real SDK cannot run here; undefined: they can. */
export function whySkipped(): string | undefined {
  if (sdkRoot() === undefined)
    return '@coreweave/cwsandbox is not installed, and DVO_TEST_CWSANDBOX names no build of it';
  if (gatewayFolder === '' || !existsSync(join(gatewayFolder, 'src/main.mjs')))
    return 'DVO_TEST_CW_GATEWAY does not name the folder of the gateway emulator';
  if (process.getuid?.() !== 0) return 'the gateway emulator needs root';
  return undefined;
}

export const importSdk: ImportModule = async (specifier) => {
  const root = sdkRoot() ?? '';
  // A package may import itself by its own name, whatever folder it lies in.
  const resolved = createRequire(join(root, 'package.json')).resolve(specifier);
  return await import(pathToFileURL(resolved).href);
};

export interface RecordedCall {
  readonly seq: number;
  readonly method: string;
  readonly code?: string;
  readonly sandboxId?: string;
  readonly deadlineMs?: number;
  readonly summary?: Readonly<Record<string, unknown>>;
}

export class Gateway implements AsyncDisposable {
  readonly baseUrl: string;
  readonly controlUrl: string;
  readonly #process: ChildProcess;

  constructor(process: ChildProcess, ready: { baseUrl: string; controlUrl: string }) {
    this.#process = process;
    this.baseUrl = ready.baseUrl;
    this.controlUrl = ready.controlUrl;
  }

  static async start(...args: readonly string[]): Promise<Gateway> {
    const child = spawn(process.execPath, [join(gatewayFolder, 'src/main.mjs'), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    for await (const line of createInterface({ input: child.stdout })) {
      return new Gateway(child, JSON.parse(line) as { baseUrl: string; controlUrl: string });
    }
    throw new Error('the gateway emulator did not start');
  }

  async control<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.controlUrl}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async calls(method?: string): Promise<readonly RecordedCall[]> {
    return await this.control('GET', method === undefined ? '/calls' : `/calls?method=${method}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGTERM');
    await ended;
  }
}
