import { spawnSync } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dvo, MAIN } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { hasTmux, Tmux } from '../support/tmux.ts';
import { until } from '../support/until.ts';

const has = (tool: string): boolean => spawnSync(tool, ['--version']).status === 0;
const missing = ['zsh', 'fish'].filter((tool) => !has(tool));
if (missing.length > 0) console.warn(`SKIPPED, completion was not tested in: ${missing.join(', ')}`);

/** A stage with a session, and an environment in which the command is called `dvo`. */
async function withCommand(stage: Stage): Promise<Readonly<Record<string, string>>> {
  await stage.serve('devin-anna');
  const bin = join(stage.stateDir, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'dvo'), `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(join(bin, 'dvo'), 0o755);
  return { ...stage.env, PATH: `${bin}:${stage.env['PATH'] ?? ''}`, HOME: stage.stateDir };
}

describe('dvo --help', () => {
  it('is a table of contents with an example of every command', async () => {
    const { code, out } = await dvo({ PATH: process.env['PATH'] }, ['--help']);
    expect(code).toBe(0);
    for (const name of [
      'run',
      'demo',
      'emulator',
      'connect',
      'doctor',
      'status',
      'logs',
      'exec',
      'shell',
      'cp',
    ]) {
      expect(out).toMatch(new RegExp(`^  dvo ${name}\\b.{3,} {2}\\S`, 'm'));
    }
    for (const name of ['suspend', 'release', 'terminate', 'completion'])
      expect(out).toContain(`\n  dvo ${name} `);
    expect(out).not.toContain('__complete');
    for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(120);
  });

  it('says what to do about a command that it does not know', async () => {
    const { code, err } = await dvo({ PATH: process.env['PATH'] }, ['statsu']);
    expect(code).toBe(2);
    expect(err).toContain('status');
    expect(err).toContain('dvo --help');
  });
});

describe('completion', () => {
  it('offers commands, flags, choices and sessions, and nothing where it knows nothing', async () => {
    await using stage = await Stage.start();
    const env = await withCommand(stage);
    const offered = async (...words: readonly string[]): Promise<readonly string[]> => {
      const { out, err } = await dvo(env, ['__complete', '--', ...words]);
      expect(err).toBe('');
      return out.split('\n').filter((line) => line !== '');
    };
    expect(await offered('s')).toEqual(['status', 'shell', 'suspend']);
    expect(await offered('status', '--')).toEqual(['--json', '--watch', '--help']);
    expect(await offered('demo', '--provider', '')).toEqual(['local', 'coreweave']);
    expect(await offered('completion', '')).toEqual(['bash', 'zsh', 'fish']);
    expect(await offered('logs', '--tail', '10', 'dev')).toEqual(['devin-anna']);
    expect(await offered('cp', './here', 'd')).toEqual(['devin-anna:']);
    expect(await offered('exec', 'devin-anna', '--', 'l')).toEqual([]);
    expect(await offered('dance', '')).toEqual([]);
    expect(
      (await dvo({ PATH: env['PATH'], STATE_DIR: '/nowhere' }, ['__complete', '--', 'logs', ''])).out,
    ).toBe('');
  });

  it.skipIf(!hasTmux).each(['bash', 'zsh'].filter((shell) => !missing.includes(shell)))(
    'works in %s, at a person’s Tab',
    async (shell) => {
      await using stage = await Stage.start();
      const env = await withCommand(stage);
      await using person = new Tmux(env, { columns: 100, rows: 30 });
      const saw = async (text: string) =>
        await until(async () => (await person.screen()).includes(text), { what: text });
      if (shell === 'zsh') {
        await person.line('PS1="there> " zsh -f');
        await saw('there>');
        await person.line('autoload -U compinit; compinit -u');
      }
      await person.line(`source <(dvo completion ${shell}); echo ready`);
      await saw('\nready');
      await person.type('dvo susp');
      await person.key('Tab');
      await saw('dvo suspend');
      await person.type('dev');
      await person.key('Tab');
      await saw('dvo suspend devin-anna');
      await person.key('C-u');
      await person.type('dvo cp dev');
      await person.key('Tab');
      await person.type('x');
      await saw('dvo cp devin-anna:x');
    },
  );

  it.skipIf(missing.includes('fish'))('works in fish', async () => {
    await using stage = await Stage.start();
    const env = await withCommand(stage);
    const offered = (line: string): string =>
      spawnSync('fish', ['--no-config', '-c', `dvo completion fish | source; complete -C '${line}'`], {
        env,
        encoding: 'utf8',
      }).stdout;
    expect(offered('dvo susp')).toBe('suspend\n');
    expect(offered('dvo logs --fo')).toBe('--follow\n');
    expect(offered('dvo terminate dev')).toBe('devin-anna\n');
    expect(offered('dvo cp dev')).toContain('devin-anna:\n');
  });
});
