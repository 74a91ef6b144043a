/** The SDK's members as typed by hand, against the package's own types. `npm run test:coreweave`. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { sdkRoot } from '../support/coreweave-sdk.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const root = sdkRoot();

async function compile(source: string): Promise<{ readonly said: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'dvo-types-'));
  try {
    await writeFile(join(folder, 'compare.mts'), source);
    const paths = {
      '@coreweave/cwsandbox/node': [join(root ?? '', 'dist/node/index.d.ts')],
      '@coreweave/cwsandbox/wandb': [join(root ?? '', 'dist/wandb/index.d.ts')],
      sdk: [join(PROJECT, 'src/sandboxes/coreweave/sdk.ts')],
    };
    const tsconfig = {
      extends: join(PROJECT, 'tsconfig.json'),
      compilerOptions: {
        paths,
        noEmit: true,
        skipLibCheck: true,
        typeRoots: [join(PROJECT, 'node_modules/@types')],
      },
      include: [],
      files: ['compare.mts'],
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
    const tsc = join(PROJECT, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, ['-p', folder], { encoding: 'utf8' });
    return { said: stdout };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe.skipIf(root === undefined)('the types of the CoreWeave SDK', () => {
  it.each(['node', 'wandb'])('what the adapter uses of /%s is there, in that shape', async (entry) => {
    const { said } = await compile(`
      import { createSandboxClient } from '@coreweave/cwsandbox/${entry}';
      import type { SdkClient } from 'sdk';
      export const client: SdkClient = createSandboxClient({ apiKey: 'x' });
    `);
    expect(said).toBe('');
  });

  it('a difference is noticed', async () => {
    const { said } = await compile(`
      import { createSandboxClient } from '@coreweave/cwsandbox/node';
      import type { SdkClient } from 'sdk';
      interface More extends SdkClient { hibernate(id: string): Promise<void> }
      export const client: More = createSandboxClient({ apiKey: 'x' });
    `);
    expect(said).toContain('hibernate');
  });
});
