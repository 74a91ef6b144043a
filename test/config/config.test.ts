import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadConfig, type Config } from '../../src/config/config.ts';
import { VOLUME } from '../../src/config/coreweave.ts';
import { configurationTable, VARIABLES } from '../../src/config/variables.ts';
import { DvoError } from '../../src/lib/errors.ts';
import { isLoopbackUrl } from '../../src/lib/loopback.ts';
import { Redactor } from '../../src/lib/secret.ts';
import { COREWEAVE_PATHS } from '../../src/sandboxes/coreweave/main-command.ts';

const GOOD = {
  DEVIN_OUTPOSTS_TOKEN: 'cog_0123456789',
  OUTPOST_ID: 'outpost_env-1',
  CWSANDBOX_API_KEY: 'cw_0123456789',
};

function load(env: Record<string, string | undefined>, files: Record<string, string> = {}): Config {
  return loadConfig({
    env,
    files: {
      read(path) {
        const text = files[path];
        if (text === undefined) throw new Error(`ENOENT: ${path}`);
        return text;
      },
    },
    redactor: new Redactor(),
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

describe('the environment contract', () => {
  it('has a default for everything but the two credentials and the outpost', () => {
    const config = load(GOOD);
    expect(config).toMatchObject({
      devin: { apiUrl: 'https://api.devin.ai', outpostId: 'outpost_env-1' },
      maxSessions: 5,
      provider: 'coreweave',
      shutdown: { mode: 'detach', graceMs: 25_000 },
      timing: { claimRenewMarginMs: 60_000 },
      log: { level: 'info', format: 'json' },
    });
    expect(config.devin.token.read().reveal()).toBe(GOOD.DEVIN_OUTPOSTS_TOKEN);
  });

  it('D6: reports every problem at once, with name, value and what is right', () => {
    const said = problems({
      MAX_CONCURRENT_SESSIONS: '0',
      SANDBOX_PROVIDER: 'docker',
      WORKDIR: 'relative',
      DEVIN_WORKER_REMOTE_SHA: 'HEAD',
      DEVIN_API_URL: 'ftp://x',
      REPOS: 'https://user:pass@host/x',
    });
    for (const line of [
      'DEVIN_OUTPOSTS_TOKEN is not set',
      'OUTPOST_ID is not set',
      'MAX_CONCURRENT_SESSIONS is "0"; it must be a whole number from 1 to 5000',
      'SANDBOX_PROVIDER is "docker"; it must be one of coreweave, local',
      'WORKDIR is "relative"',
      'DEVIN_WORKER_REMOTE_SHA is "HEAD"',
      'DEVIN_API_URL is "ftp://x"',
      'REPOS is',
    ]) {
      expect(said).toContain(line);
    }
  });

  it('shows no credentials of a URL, and no secret that stands where its file should be named', () => {
    const said = problems({
      OUTPOST_ID: 'o',
      REPOS:
        'https://x-access-token:ghp_hidden@github.com/org/app, https://ghp_hidden@github.com/org/b, me:ghp_hidden@github.com/org/c',
      DEVIN_API_URL: 'https://me:pass_hidden@api.devin.ai',
      DEVIN_OUTPOSTS_TOKEN_FILE: 'cog_hidden',
      CWSANDBOX_API_KEY_FILE: 'key/hidden==',
    });
    expect(said).not.toContain('hidden');
    expect(said).toContain('REPOS is "https://[redacted]@github.com/org/app"');
    expect(said).toContain('REPOS is "[redacted]@github.com/org/c"');
    expect(said).toContain('DEVIN_API_URL is "https://[redacted]@api.devin.ai"');
    expect(said).toContain('DEVIN_OUTPOSTS_TOKEN_FILE is no path');
    const cut = problems({ ...GOOD, WORKDIR: `${'x'.repeat(190)}${GOOD.DEVIN_OUTPOSTS_TOKEN}` });
    expect(cut).not.toContain('cog_');
    const path = problems({
      ...GOOD,
      DEVIN_OUTPOSTS_TOKEN: '',
      DEVIN_OUTPOSTS_TOKEN_FILE: '/run/secrets/no',
    });
    expect(path).toContain('"/run/secrets/no"');
    expect(path).toContain('ENOENT');
    expect(problems({ ...GOOD, REPOS: 'git@github.com:org/app' })).toContain('"git@github.com:org/app"');
  });

  it('S7: a WORKDIR that would not be archived is refused, a HOME is warned of', () => {
    expect(VOLUME).toBe(COREWEAVE_PATHS.volume);
    for (const outside of ['/work', '/workspace2', '/'])
      expect(problems({ ...GOOD, WORKDIR: outside })).toContain(
        `WORKDIR is "${outside}"; it must be /workspace or below it`,
      );
    for (const inside of ['/workspace', '/workspace/', '/workspace/app'])
      expect(load({ ...GOOD, WORKDIR: inside, SANDBOX_HOME: inside }).warnings).toEqual([]);
    expect(load({ ...GOOD, SANDBOX_HOME: '/root' }).warnings.join()).toContain('SANDBOX_HOME=/root');
    const local = { SANDBOX_PROVIDER: 'local', DEVIN_API_URL: 'http://127.0.0.1:1' };
    expect(load({ ...GOOD, ...local, WORKDIR: '/work' }).workspace.workdir).toBe('/work');
  });

  it('refuses to send GIT_TOKEN in clear', () => {
    const clear = { ...GOOD, REPOS: 'http://git.example/a, org/b, http://127.0.0.1:3000/c' };
    expect(load(clear).workspace.repos).toHaveLength(3);
    const said = problems({ ...clear, GIT_TOKEN: 'ghp_0123456789' });
    expect(said).toContain('one problem');
    expect(said).toContain('REPOS is "http://git.example/a"; it must be https, because GIT_TOKEN');
  });

  it('reads empty as unset', () => {
    const empty = Object.fromEntries(VARIABLES.map(({ name }) => [name, '']));
    expect(load({ ...empty, ...GOOD })).toEqual({
      ...load(GOOD),
      devin: expect.anything(),
      coreweave: expect.anything(),
    });
  });

  it('strips what does not belong into the API URL, and says so', () => {
    const config = load({ ...GOOD, DEVIN_API_URL: 'https://api.example.com/opbeta/' });
    expect(config.devin.apiUrl).toBe('https://api.example.com');
    expect(config.warnings.join()).toContain('/opbeta');
  });

  it('refuses a STATE_DIR where folders cannot be made', () => {
    expect(problems({ ...GOOD, STATE_DIR: '/proc/dvo' })).toContain('STATE_DIR is "/proc/dvo"');
  });

  it('L7, S7, S8, R7: has the archives’ and the delivery’s defaults, and takes others', () => {
    expect(load(GOOD)).toMatchObject({
      archives: {
        suspendMode: 'snapshot',
        checkpointEveryMs: 1_800_000,
        lifetimeMarginMs: 900_000,
        retentionMs: 1_209_600_000,
      },
      remote: { delivery: 'auto' },
    });
    expect(
      load({
        ...GOOD,
        SUSPEND_MODE: 'keep',
        CHECKPOINT_INTERVAL_MINUTES: '0',
        LIFETIME_MARGIN_SECONDS: '60',
        REMOTE_DELIVERY: 'upload',
      }),
    ).toMatchObject({
      archives: { suspendMode: 'keep', checkpointEveryMs: 0, lifetimeMarginMs: 60_000 },
      remote: { delivery: 'upload' },
    });
  });

  it('S7: a margin that leaves no time to serve is refused', () => {
    expect(problems({ ...GOOD, SANDBOX_MAX_LIFETIME_SECONDS: '1200' })).toContain(
      'LIFETIME_MARGIN_SECONDS is "900"; it must be at most half of SANDBOX_MAX_LIFETIME_SECONDS',
    );
  });

  it('says what will be lost by choice', () => {
    const { warnings } = load({ ...GOOD, SUSPEND_MODE: 'discard', NETWORK_POLICY: 'ignore' });
    expect(warnings.join()).toContain('SUSPEND_MODE=discard');
    expect(warnings.join()).toContain('NETWORK_POLICY=ignore');
    const template = { ...GOOD, SANDBOX_TEMPLATE_ID: 'gpu' };
    expect(load(template).warnings.join()).toMatch(/without SANDBOX_IMAGE: no archive/);
    expect(load({ ...template, SUSPEND_MODE: 'keep' }).warnings).toEqual([]);
    expect(load({ ...template, SANDBOX_IMAGE: 'own:1' }).warnings.join()).toMatch(
      /with SANDBOX_IMAGE: .* GPU/,
    );
    expect(load({ ...GOOD, SANDBOX_IMAGE: 'own:1' }).warnings).toEqual([]);
  });

  it('S10: refuses the local provider against a real Devin, unless told so', () => {
    expect(problems({ ...GOOD, SANDBOX_PROVIDER: 'local' })).toContain('ALLOW_UNSANDBOXED');
    const config = load({ ...GOOD, SANDBOX_PROVIDER: 'local', ALLOW_UNSANDBOXED: 'true' });
    expect(config.warnings.join()).toContain('without isolation');
    const emulator = { SANDBOX_PROVIDER: 'local', DEVIN_API_URL: 'http://127.0.0.1:1' };
    expect(load({ ...GOOD, ...emulator }).provider).toBe('local');
    expect(problems({ ...GOOD, DEVIN_API_URL: 'http://api.example.com' })).toContain('https');
  });

  it('D7: takes a secret from a file, follows its changes, and keeps the last good value', () => {
    const files: Record<string, string> = { '/token': 'cog_first_value\n' };
    const env = { ...GOOD, DEVIN_OUTPOSTS_TOKEN: '', DEVIN_OUTPOSTS_TOKEN_FILE: '/token' };
    const { token } = load(env, files).devin;
    expect(token.read().reveal()).toBe('cog_first_value');
    files['/token'] = 'cog_second_value';
    expect(token.read().reveal()).toBe('cog_second_value');
    files['/token'] = '';
    expect(token.read().reveal()).toBe('cog_second_value');
    delete files['/token'];
    expect(token.read().reveal()).toBe('cog_second_value');
    expect(problems({ ...GOOD, DEVIN_OUTPOSTS_TOKEN_FILE: '/x' })).toContain('both set');
  });

  it('O10: beyond loopback there must be a token, and it must be long', () => {
    expect(load(GOOD).ops).toEqual({ host: '127.0.0.1', port: 8080 });
    const open = { ...GOOD, OPS_HOST: '0.0.0.0' };
    expect(problems(open)).toMatch(
      /OPS_TOKEN is not set; .*OPS_TOKEN_FILE.*OPS_HOST=0\.0\.0\.0 is not loopback/,
    );
    const short = problems({ ...open, OPS_TOKEN: 'open-sesame' });
    expect(short).toContain('OPS_TOKEN is shorter than 16 characters');
    expect(short).not.toContain('open-sesame');
    const guarded = load({ ...open, OPS_TOKEN_FILE: '/token' }, { '/token': 'correct-horse-battery\n' });
    expect(guarded.ops.token?.read().reveal()).toBe('correct-horse-battery');
    expect(guarded.warnings.join()).toContain('TLS');
    expect(load({ ...GOOD, OPS_HOST: '::1' }).warnings).toEqual([]);
    expect(problems({ ...GOOD, OPS_HOST: '0.0.0.0', SANDBOX_PROVIDER: 'docker' })).toContain('2 problems');
  });

  it('warns of a variable that it does not know', () => {
    expect(load({ ...GOOD, SANDBOX_PROVIDR: 'local' }).warnings.join()).toContain('SANDBOX_PROVIDR');
  });

  it('whatever the environment holds: a configuration, or one error that shows no secret', () => {
    const names = VARIABLES.map(({ name }) => name);
    const secret = 'cog_never_to_be_seen';
    const environment = fc.dictionary(fc.constantFrom(...names), fc.string({ unit: 'binary' }));
    fc.assert(
      fc.property(environment, fc.constantFrom('', ' ', '\n', 'é'), (env, suffix) => {
        try {
          load({ ...env, DEVIN_OUTPOSTS_TOKEN: `${secret}${suffix}x` });
        } catch (error) {
          expect(error).toBeInstanceOf(DvoError);
          expect(error).toMatchObject({ code: 'config' });
          expect(String(error)).not.toContain(secret);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('one variable that holds anything is used as it should be, or named', () => {
    const odd = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        '-1',
        '0',
        '1e9',
        '99999999999999999999',
        'true',
        '/../x',
        'http://',
        "'",
        '$(touch x)',
        '\0',
      ),
    );
    const plain = VARIABLES.filter(({ secret }) => secret !== true).map(({ name }) => name);
    fc.assert(
      fc.property(fc.constantFrom(...plain), odd, (name, value) => {
        const said = problems({ ...GOOD, [name]: value });
        if (said !== '') {
          expect(said).toContain(name);
          return;
        }
        const { maxSessions, timing, ops, shutdown, stateDir, workspace } = load({ ...GOOD, [name]: value });
        for (const number of [maxSessions, shutdown.graceMs, ...Object.values(timing)]) {
          expect(Number.isSafeInteger(number) && number > 0, name).toBe(true);
        }
        expect(ops.port).toBeLessThan(65_536);
        for (const path of [stateDir, workspace.workdir ?? '/', workspace.home ?? '/'])
          expect(path.startsWith('/') && !path.includes('\0'), name).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  it('P5: .env.example and the README’s table name exactly the variables that are read', () => {
    const read = (file: string): string => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    const example = [...read('.env.example').matchAll(/^(?:# )?([A-Z_]+)=$/gm)].map(([, name]) => name ?? '');
    const expected = VARIABLES.flatMap((one) =>
      one.secret === true ? [one.name, `${one.name}_FILE`] : [one.name],
    );
    expect(example.toSorted()).toEqual(expected.toSorted());
    expect(read('README.md')).toContain(configurationTable());
  });
});

describe('loopback', () => {
  it.each(['http://127.0.0.1:1', 'http://127.9.9.9', 'http://localhost/x', 'http://[::1]:8'])(
    '%s is this machine',
    (url) => {
      expect(isLoopbackUrl(url)).toBe(true);
    },
  );
  it.each([
    'http://localhost.evil.com',
    'http://127.0.0.1.nip.io',
    'http://10.0.0.1',
    'nonsense',
    'http://127.0.0.1@evil.com',
  ])('%s is not', (url) => {
    expect(isLoopbackUrl(url)).toBe(false);
  });
});
