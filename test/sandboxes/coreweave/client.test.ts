import { describe, expect, it } from 'vitest';
import type { CoreweaveCredential } from '../../../src/config/coreweave.ts';
import { fixedSecret } from '../../../src/config/secret-source.ts';
import { Redactor } from '../../../src/lib/secret.ts';
import { connectCoreweave, type ImportModule } from '../../../src/sandboxes/coreweave/client.ts';
import { sdkRoot } from '../../support/coreweave-sdk.ts';

const apiKey = fixedSecret('key-0123456789', new Redactor());

async function optionsFor(credential: CoreweaveCredential): Promise<readonly [string, unknown]> {
  let seen: unknown;
  let entry = '';
  const importModule: ImportModule = async (specifier) => {
    entry = specifier;
    return { createSandboxClient: (options: unknown) => (seen = options) };
  };
  await connectCoreweave(credential, importModule);
  return [entry, seen];
}

describe('loading the SDK', () => {
  it.skipIf(sdkRoot() !== undefined)('names the command that installs it when it is missing', async () => {
    await expect(connectCoreweave({ kind: 'cwsandbox', apiKey })).rejects.toMatchObject({
      code: 'config',
      message: expect.stringContaining('npm install @coreweave/cwsandbox'),
    });
  });

  it('says so when the package is something else', async () => {
    for (const module of [{}, null, { createSandboxClient: 1 }]) {
      await expect(connectCoreweave({ kind: 'cwsandbox', apiKey }, async () => module)).rejects.toMatchObject(
        {
          code: 'config',
        },
      );
    }
  });

  it('S4: gives each credential to its own factory, and nothing of the environment', async () => {
    const text = 'key-0123456789';
    expect(await optionsFor({ kind: 'cwsandbox', apiKey, baseUrl: 'https://x' })).toEqual([
      '@coreweave/cwsandbox/node',
      { apiKey: text, baseUrl: 'https://x' },
    ]);
    expect(await optionsFor({ kind: 'wandb', apiKey, entity: 'us', project: 'p' })).toEqual([
      '@coreweave/cwsandbox/wandb',
      { apiKey: text, entity: 'us', project: 'p', env: {} },
    ]);
    expect(await optionsFor({ kind: 'wandb' })).toEqual(['@coreweave/cwsandbox/wandb', { env: {} }]);
    expect(await optionsFor({ kind: 'forge', apiKey, team: 'team' })).toEqual([
      '@coreweave/cwsandbox/wandb',
      { apiKey: text, entity: 'team', env: {} },
    ]);
  });

  it('takes the SDK’s refusal of a credential for a problem of the configuration', async () => {
    const importModule: ImportModule = async () => ({
      createSandboxClient: () => {
        throw new Error('no key found');
      },
    });
    await expect(connectCoreweave({ kind: 'wandb' }, importModule)).rejects.toMatchObject({
      code: 'config',
      message: expect.stringContaining('no key found'),
    });
  });
});
