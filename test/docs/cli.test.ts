import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dvo } from '../../src/cli/program.ts';

const page = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8');

async function help(...words: readonly string[]): Promise<string> {
  let text = '';
  await dvo([...words, '--help'], {
    env: {},
    out: (piece) => void (text += piece),
    err: () => undefined,
    interactive: false,
    color: false,
    streams: process,
  });
  return text;
}

const commands = [...(await help()).matchAll(/^ {2}dvo ([a-z]+)/gm)].map(([, name = '']) => name);
const flags = new Set<string>();
for (const command of commands)
  for (const [flag] of (await help(command)).matchAll(/--[a-z][a-z-]*/g)) flags.add(flag);

describe('docs/cli.md', () => {
  it('has every command', () => {
    expect(commands.length).toBeGreaterThan(10);
    expect(commands.filter((name) => !new RegExp(`\`(dvo )?${name}[ \`]`).test(page))).toEqual([]);
  });

  it('names no command and no flag that there is not', () => {
    const named = [...page.matchAll(/\bdvo ([a-z]+)\b/g)].map(([, name = '']) => name);
    expect(named.filter((name) => !commands.includes(name))).toEqual([]);
    const written = [...page.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)].map(([flag]) => flag);
    expect(written.length).toBeGreaterThan(5);
    expect(written.filter((flag) => !flags.has(flag))).toEqual([]);
  });
});
