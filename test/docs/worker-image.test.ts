import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const FOLDER = fileURLToPath(new URL('../../docs/worker-image', import.meta.url));
const name = (...args: readonly string[]): string =>
  execFileSync(join(FOLDER, 'name.sh'), args, { encoding: 'utf8' }).trim();

describe('the worker image', () => {
  it('O14: is named by the hash of its recipe', async () => {
    const recipe = await readFile(join(FOLDER, 'Dockerfile'));
    const hash = createHash('sha256').update(recipe).digest('hex').slice(0, 8);
    expect(name()).toBe(`dvo-worker-${hash}`);
    const folder = await mkdtemp(join(tmpdir(), 'dvo-recipe-'));
    await writeFile(join(folder, 'Dockerfile'), `${recipe.toString()}\nRUN true\n`);
    expect(name(join(folder, 'Dockerfile'))).not.toBe(name());
    await rm(folder, { recursive: true });
  });

  it('O14: starts from the image that dvo takes by default, with what it would have to install', async () => {
    const recipe = await readFile(join(FOLDER, 'Dockerfile'), 'utf8');
    const { OFFICIAL_IMAGE } = await import('../../src/sandboxes/coreweave/create-options.ts');
    expect(recipe).toContain(`FROM ${OFFICIAL_IMAGE}\n`);
    for (const tool of ['git', 'curl', 'ca-certificates', 'gh', 'ffmpeg', 'build-essential', 'google-chrome'])
      expect(recipe).toMatch(new RegExp(`\\b${tool}\\b`));
  });
});
