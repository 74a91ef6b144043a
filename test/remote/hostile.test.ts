import { spawn } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemClock, systemRandom } from '../../src/lib/clock.ts';
import { DvoError } from '../../src/lib/errors.ts';
import { createRemoteControl } from '../../src/remote/control.ts';
import { Distribution } from '../../src/remote/distribution.ts';
import { LARGEST_MARKER_BYTES } from '../../src/remote/marker.ts';
import { assignments } from '../../src/remote/quote.ts';
import type { RemoteControl } from '../../src/remote/port.ts';
import type { ExecResult } from '../../src/sandboxes/provider.ts';
import { anyReply, damaged, replying } from '../support/hostile.ts';
import { nullWorld } from '../support/null-world.ts';

const target = { sandboxId: 's', paths: { volume: '/v', run: '/r' } };
const call = () => ({ timeoutMs: 60_000, signal: new AbortController().signal });

/** A control whose sandbox answers every script with what the test says. */
function controlOver(sandbox: { readonly exec: (nonce: string) => ExecResult }): RemoteControl {
  const { provider } = nullWorld();
  return createRemoteControl({
    provider: {
      ...provider,
      exec: async (_, { argv }) => {
        const [, nonce = ''] = /^nonce='([0-9a-f]+)'$/m.exec(argv.join('\n')) ?? [];
        return sandbox.exec(nonce);
      },
    },
    clock: systemClock,
    random: systemRandom,
    fetch: replying([]),
    settings: {
      staticBaseUrl: 'http://x',
      delivery: 'auto',
      cacheDir: '/x',
      repos: [],
      gitUsername: 'x',
      desktop: false,
    },
  });
}

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(DvoError);
    return (error as DvoError).code;
  }
}

/** A control in whose sandbox this is what can be read of the marker. */
function controlOverMarker(file: Uint8Array): RemoteControl {
  const text = Buffer.from(file).toString('base64');
  const exec = (nonce: string): ExecResult => ({
    exitCode: 0,
    stdout: `\ndvo:${nonce} ok file ${text} end\n`,
    stderr: '',
    truncated: false,
  });
  return controlOver({ exec });
}

const noise = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    'dvo: ok running a1 7 end\n',
    'dvo:0 ok gone end\n',
    '\n',
    '\r\n',
    'running a1 7\n',
    '\u001b[2J',
  ),
);

describe('R2: what a sandbox says', () => {
  it('is not believed without the nonce, whatever it is', async () => {
    await fc.assert(
      fc.asyncProperty(
        noise,
        noise,
        fc.integer(),
        fc.boolean(),
        async (stdout, stderr, exitCode, truncated) => {
          const control = controlOver({ exec: () => ({ exitCode, stdout, stderr, truncated }) });
          expect(await codeOf(control.probe(target, call()))).toBe('remote');
          expect(await codeOf(control.stop(target, undefined, call()))).toBe('remote');
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is believed with it, whatever else stands before and after', async () => {
    await fc.assert(
      fc.asyncProperty(noise, noise, fc.integer({ min: 1, max: 4_000_000 }), async (before, after, pid) => {
        const exec = (nonce: string): ExecResult => ({
          exitCode: 0,
          stdout: `${before}\ndvo:${nonce} ok running a1 ${pid} end\n${after}`,
          stderr: '',
          truncated: false,
        });
        expect(await controlOver({ exec }).probe(target, call())).toEqual({
          kind: 'running',
          launchId: 'a1',
          pid,
        });
      }),
      { numRuns: 500 },
    );
  });

  it('a probe’s answer with anything changed in it is the same answer or none', async () => {
    const words = fc.constantFrom('running a1 7', 'exited a1 0', 'exited a1 137', 'gone');
    await fc.assert(
      fc.asyncProperty(
        words,
        fc.nat(),
        fc.string({ unit: 'binary', maxLength: 3 }),
        async (said, place, put) => {
          const at = place % (said.length + 1);
          const exec = (nonce: string): ExecResult => ({
            exitCode: 0,
            stdout: `\ndvo:${nonce} ok ${said.slice(0, at)}${put} end\n`,
            stderr: '',
            truncated: false,
          });
          const seen = controlOver({ exec }).probe(target, call());
          const code = await codeOf(seen);
          if (code !== undefined) {
            expect(code).toBe('remote');
            return;
          }
          const { kind, ...rest } = await seen;
          expect(['running', 'exited', 'gone']).toContain(kind);
          for (const value of Object.values(rest)) expect(value === '' || Number.isNaN(value)).toBe(false);
        },
      ),
      { numRuns: 500 },
    );
  });

  it('a marker is read whole, or is damaged; it never passes for none', async () => {
    const marker = { version: 1, sessionId: 'a', outpostId: 'o', acceptorId: 'm', name: 'n', sandboxId: 's' };
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(damaged(fc.constant(JSON.stringify(marker))), fc.uint8Array()),
        async (file) => {
          const control = controlOverMarker(file);
          const code = await codeOf(control.readMarker(target, call()));
          if (code !== undefined) expect(code).toBe('remote');
          else expect(await control.readMarker(target, call())).toMatchObject({ version: 1 });
        },
      ),
      { numRuns: 500 },
    );
  });

  it('a marker as long as it may be is read, and is damaged with one more byte or nested without end', async () => {
    const marker = { version: 1, sessionId: 'a', outpostId: 'o', acceptorId: 'm', name: '', sandboxId: 's' };
    const name = 'x'.repeat(LARGEST_MARKER_BYTES - JSON.stringify(marker).length);
    const longest = Buffer.from(JSON.stringify({ ...marker, name }));
    expect(await controlOverMarker(longest).readMarker(target, call())).toMatchObject({ name });
    const nested = Buffer.from('['.repeat(30_000) + ']'.repeat(30_000));
    for (const file of [Buffer.concat([longest, Buffer.from(' ')]), nested])
      expect(await codeOf(controlOverMarker(file).readMarker(target, call()))).toBe('remote');
  });

  it('a marker that was not seen is neither damaged nor none', async () => {
    await fc.assert(
      fc.asyncProperty(noise, fc.boolean(), async (stdout, fails) => {
        const exec = (nonce: string): ExecResult => ({
          exitCode: fails ? 1 : 0,
          stdout: fails ? `\ndvo:${nonce} failed cannot-read-marker end\n` : stdout,
          stderr: '',
          truncated: false,
        });
        const reading = controlOver({ exec }).readMarker(target, call());
        await expect(reading).rejects.toMatchObject({ code: 'provider', kind: 'ambiguous' });
      }),
      { numRuns: 200 },
    );
  });
});

describe('R5: whatever is published', () => {
  it('a build has a name and a checksum of the right form, or it is refused', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('abcdef0', `${'a'.repeat(64)}\n`, `${'A'.repeat(64)}  other`, '../../x', '<html>'),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(anyReply(text), { minLength: 2, maxLength: 2 }), async (replies) => {
        const clock = {
          ...systemClock,
          sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 1_000, signal),
        };
        const distribution = new Distribution({
          fetch: replying(replies),
          clock,
          random: systemRandom,
          baseUrl: 'http://x',
          sha: undefined,
        });
        const code = await codeOf(distribution.resolve(undefined, { ...call(), timeoutMs: 600_000 }));
        if (code !== undefined) {
          expect(['distribution', 'unreachable']).toContain(code);
          return;
        }
        const { sha, sha256 } = await distribution.resolve(undefined, call());
        expect(sha).toMatch(/^[0-9a-f]{6,40}$/);
        expect(sha256).toMatch(/^[0-9a-f]{64}$/);
      }),
      { numRuns: 300 },
    );
  });
});

describe('R5: the latest build', () => {
  it('is kept for a minute, but not a text that names none', async () => {
    let latest = '<html>back in a moment</html>';
    const asked: string[] = [];
    const distribution = new Distribution({
      fetch: async (url, init) => {
        asked.push(url);
        const text = url === 'http://x/latest_linux_x64' ? latest : 'a'.repeat(64);
        return await replying([
          { status: 200, retryAfter: null, chunks: [Buffer.from(text)], breaks: false },
        ])(url, init);
      },
      clock: { ...systemClock, now: () => 0 },
      random: systemRandom,
      baseUrl: 'http://x',
      sha: undefined,
    });
    expect(await codeOf(distribution.resolve(undefined, call()))).toBe('distribution');
    latest = 'abcdef0';
    expect(await distribution.resolve(undefined, call())).toMatchObject({ sha: 'abcdef0' });
    latest = 'abcdef1';
    expect(await distribution.resolve(undefined, call())).toMatchObject({ sha: 'abcdef0' });
    expect(asked.filter((url) => url.endsWith('/latest_linux_x64'))).toHaveLength(2);
  });
});

describe('T10: values in scripts', () => {
  /** Bytes that the shell wrote to its standard output. */
  async function run(shell: string, script: string): Promise<Buffer> {
    const child = spawn(shell, ['-c', script], { stdio: ['ignore', 'pipe', 'pipe'], env: { LANG: 'C' } });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(Buffer.from(`stderr: ${chunk.toString()}`)));
    await new Promise((resolve) => child.once('close', resolve));
    return Buffer.concat(chunks);
  }

  const shellish = fc.constantFrom(
    "'",
    '"',
    '`',
    '$',
    '\\',
    '\n',
    '\r',
    '-',
    '!',
    '~',
    '#',
    '&',
    ';',
    '\u007f',
    '雪',
    '😀',
  );
  const value = fc
    .oneof(
      fc.string({ unit: 'binary' }),
      fc.array(shellish).map((all) => all.join('')),
    )
    .filter((one) => !one.includes('\0') && one.isWellFormed());

  it.each(['sh', 'bash'])(
    '%s gives every assigned value back byte for byte, and runs nothing of it',
    async (shell) => {
      await fc.assert(
        fc.asyncProperty(fc.array(value, { minLength: 20, maxLength: 60 }), async (values) => {
          const named = Object.fromEntries(values.map((one, at) => [`v${at}`, one]));
          const prints = Object.keys(named).map((name) => `printf '%s\\0' "$${name}"`);
          const said = await run(shell, [assignments(named), ...prints].join('\n'));
          expect(said.equals(Buffer.from(values.map((one) => `${one}\0`).join('')))).toBe(true);
        }),
        { numRuns: 25 },
      );
    },
  );
});
