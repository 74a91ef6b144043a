import { describe, expect, it } from 'vitest';
import { loadConfig, type Config } from '../../src/config/config.ts';
import { parseSecretReference } from '../../src/config/coreweave.ts';
import { Redactor } from '../../src/lib/secret.ts';

const BASE = { DEVIN_OUTPOSTS_TOKEN: 'cog_0123456789', OUTPOST_ID: 'outpost_env-1' };

function load(env: Record<string, string>, redactor = new Redactor()): Config {
  return loadConfig({
    env: { ...BASE, ...env },
    files: {
      read: () => {
        throw new Error('no files here');
      },
    },
    redactor,
    terminal: false,
    onSecretTrouble: () => undefined,
  });
}

function problems(env: Record<string, string>): string {
  try {
    load(env);
  } catch (error) {
    return String(error);
  }
  return '';
}

const KEY = { CWSANDBOX_API_KEY: 'cw_0123456789' };

describe('CoreWeave’s part of the environment contract', () => {
  it('S4: takes the one credential that is set', () => {
    expect(load(KEY).coreweave?.credential).toMatchObject({ kind: 'cwsandbox' });
    expect(load({ WANDB_API_KEY: 'wb_0123456789', WANDB_ENTITY: 'us' }).coreweave?.credential).toMatchObject({
      kind: 'wandb',
      entity: 'us',
    });
    expect(load({ FORGE_API_KEY: 'fg_0123456789', FORGE_TEAM: 'team' }).coreweave?.credential).toMatchObject({
      kind: 'forge',
      team: 'team',
    });
  });

  it('S4: refuses two credentials at once, naming them, unless told which', () => {
    const two = { ...KEY, WANDB_API_KEY: 'wb_0123456789' };
    expect(problems(two)).toContain('CWSANDBOX_API_KEY and WANDB_API_KEY');
    expect(problems(two)).not.toMatch(/cw_0123456789|wb_0123456789/);
    expect(load({ ...two, COREWEAVE_AUTH: 'wandb' }).coreweave?.credential.kind).toBe('wandb');
    expect(load({ ...two, COREWEAVE_AUTH: 'cwsandbox' }).coreweave?.credential.kind).toBe('cwsandbox');
  });

  it('S4: says what is missing; only W&B can do without, by its own login', () => {
    expect(problems({})).toContain('COREWEAVE_AUTH is "auto"; it must be given one credential');
    expect(problems({ COREWEAVE_AUTH: 'cwsandbox' })).toContain('CWSANDBOX_API_KEY is not set');
    expect(problems({ FORGE_API_KEY: 'fg_0123456789' })).toContain('FORGE_TEAM is not set');
    expect(load({ COREWEAVE_AUTH: 'wandb' }).coreweave?.credential).toEqual({ kind: 'wandb' });
  });

  it('asks for none of it with another provider', () => {
    const config = load({
      SANDBOX_PROVIDER: 'local',
      DEVIN_API_URL: 'http://127.0.0.1:1',
      SANDBOX_CPU: 'many',
    });
    expect(config.coreweave).toBeUndefined();
  });

  it('S3: has defaults, and keeps the credential out of sight', () => {
    const redactor = new Redactor();
    const { coreweave } = load(KEY, redactor);
    expect(coreweave).toMatchObject({
      cpu: '2',
      memory: '8Gi',
      disk: '10Gi',
      maxLifetimeSeconds: 28_800,
      runnerIds: [],
      secrets: [],
      tags: [],
      noInternet: false,
    });
    expect(coreweave).not.toHaveProperty('image');
    expect(JSON.stringify(coreweave)).not.toContain(KEY.CWSANDBOX_API_KEY);
    // However many connect tokens come after it.
    for (let n = 0; n <= 4_000; n += 1) redactor.add(`token-${n}-end`);
    expect(redactor.scrub(`x ${KEY.CWSANDBOX_API_KEY}`)).toBe('x [redacted]');
  });

  it.each([
    ['SANDBOX_CPU', '0'],
    ['SANDBOX_CPU', 'two'],
    ['SANDBOX_MEMORY', '8GB'],
    ['SANDBOX_DISK', '-1Gi'],
    ['SANDBOX_MAX_LIFETIME_SECONDS', '2592001'],
    ['SANDBOX_MAX_LIFETIME_SECONDS', '0'],
    ['SANDBOX_IMAGE', 'two words'],
    ['SANDBOX_TAGS', 'ends-with-'],
    ['SANDBOX_TAGS', 'dvo-outpost-12345678'],
    ['SANDBOX_TAGS', 'x'.repeat(60)],
    ['SANDBOX_SECRETS', 'name=ENV'],
    ['SANDBOX_SECRETS', 'store/name'],
    ['SANDBOX_SECRETS', 'store/a=X,store/b=X'],
    ['SANDBOX_NO_INTERNET', 'yes'],
    ['CWSANDBOX_BASE_URL', 'http://example.com'],
  ])('D6: refuses %s=%s', (name, value) => {
    expect(problems({ ...KEY, [name]: value })).toContain(name);
  });

  it('S3: runners of one’s own need a CoreWeave token', () => {
    expect(load({ ...KEY, SANDBOX_RUNNER_IDS: 'one, two' }).coreweave?.runnerIds).toEqual(['one', 'two']);
    expect(problems({ WANDB_API_KEY: 'wb_0123456789', SANDBOX_RUNNER_IDS: 'one' })).toContain(
      'SANDBOX_RUNNER_IDS',
    );
  });

  it('S5: reads references to secrets, never values', () => {
    expect(parseSecretReference('wandb-team-secrets/npm=NPM_TOKEN')).toEqual({
      store: 'wandb-team-secrets',
      name: 'npm',
      envVar: 'NPM_TOKEN',
    });
    expect(parseSecretReference('store/a/path#key=X')).toEqual({
      store: 'store',
      name: 'a/path',
      field: 'key',
      envVar: 'X',
    });
    for (const wrong of ['', 'store/=X', '/a=X', 'store/a=1X', 'store/a#=X', 'store/a=X=Y', 'store/a b=X']) {
      expect(parseSecretReference(wrong)).toBeUndefined();
    }
  });
});
