/** Rules of the house that no linter checks. */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '' && existsSync(join(ROOT, file)));
const text = (file: string): string => readFileSync(join(ROOT, file), 'utf8');
const sources = tracked.filter((file) => file.startsWith('src/') && file.endsWith('.ts'));

/** The ports: what the rooms of one row may know of each other. */
const PORTS = new Set([
  'src/session/session.ts',
  'src/session/gist.ts',
  'src/sandboxes/provider.ts',
  'src/sandboxes/names.ts',
  'src/remote/port.ts',
  'src/outposts/outposts.ts',
]);
const ROWS: Readonly<Record<string, number>> = {
  main: 5,
  cli: 4,
  orchestrator: 3,
  config: 1,
  session: 2,
  outposts: 2,
  sandboxes: 2,
  remote: 2,
  state: 2,
  ops: 2,
  emulator: 2,
  lib: 0,
};

/** Text of a program that runs by itself, in a sandbox. */
const STAND_IN = 'src/emulator/stand-in-remote.ts';

const room = (file: string): string => (file === 'src/main.ts' ? 'main' : (file.split('/')[1] ?? ''));

function imports(file: string): readonly string[] {
  return [...text(file).matchAll(/(?:from|import) '(\.[^']+)'/g)].map(([, path]) =>
    relative(ROOT, resolve(ROOT, dirname(file), path ?? '')),
  );
}

describe('the house', () => {
  it('P5: imports go one way', () => {
    const wrong = sources.flatMap((file) =>
      imports(file)
        .filter((target) => {
          const [from, to] = [room(file), room(target)];
          if (from === to || PORTS.has(target)) return false;
          return (ROWS[to] ?? 9) >= (ROWS[from] ?? -1);
        })
        .map((target) => `${file} must not import ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it('the rules are pure', () => {
    const impure = sources.filter(
      (file) =>
        room(file) === 'session' && /from 'node:|Date\.now|new Date|Math\.random|process\./.test(text(file)),
    );
    expect(impure).toEqual([]);
  });

  it('only one file may know the SDK, and only main.ts the environment', () => {
    expect(
      sources.filter((file) => /import\(.@coreweave|from '@coreweave/.test(text(file))).length,
    ).toBeLessThanOrEqual(1);
    expect(
      sources.filter((file) => /process\.env\b|\benv\b.* = process\b/.test(text(file)) && file !== STAND_IN),
    ).toEqual(['src/main.ts']);
  });

  it('what only traces need is loaded in one file, and only when it is asked for', () => {
    const loads = /^import (?!type).*from '@opentelemetry|import\('@opentelemetry/m;
    expect(sources.filter((file) => loads.test(text(file)))).toEqual(['src/ops/traces.ts']);
    expect(text('src/ops/traces.ts')).not.toMatch(/^import (?!type).*from '@opentelemetry/m);
  });

  it('no type escapes, no left-overs', () => {
    const escapes =
      /\bas any\b|: any[;,)\]=]|as unknown as|@ts-(ignore|expect-error)|oxlint-disable|TODO|FIXME/;
    expect(sources.filter((file) => escapes.test(text(file)))).toEqual([]);
  });

  it('nothing lies at the top level but what belongs there', () => {
    const allowed =
      /^(package\.json|package-lock\.json|tsconfig\.json|src|test|docs|Dockerfile|README\.md|LICENSE|\..*)$/;
    const top = new Set(tracked.map((file) => file.split('/')[0] ?? ''));
    expect([...top].filter((name) => !allowed.test(name))).toEqual([]);
  });

  it('Node itself runs every source file, types stripped', () => {
    const list = sources
      .filter((file) => file !== 'src/main.ts')
      .map((file) => `await import(${JSON.stringify(join(ROOT, file))});`);
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', list.join('\n')], {
      encoding: 'utf8',
    });
    expect(result.stderr.replaceAll(/.*ExperimentalWarning.*\n.*\n/g, '')).toBe('');
    expect(result.status).toBe(0);
  });

  it('the bin answers --help, and calls an unknown command wrong', () => {
    const main = join(ROOT, 'src/main.ts');
    const help = spawnSync(process.execPath, [main, '--help'], { encoding: 'utf8' });
    expect(help.status).toBe(0);
    for (const command of ['run', 'demo', 'emulator']) expect(help.stdout).toContain(command);
    expect(spawnSync(process.execPath, [main, 'dance']).status).toBe(2);
  });
});

describe('the words', () => {
  const pages = tracked.filter((file) => file.endsWith('.md'));

  it('every relative link leads somewhere', () => {
    const dead = pages.flatMap((page) =>
      [...text(page).matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
        .map(([, link]) => link ?? '')
        .filter((link) => !existsSync(resolve(ROOT, dirname(page), link)))
        .map((link) => `${page}: ${link}`),
    );
    expect(dead).toEqual([]);
  });

  it('every npm script that is named exists', () => {
    const scripts = Object.keys(JSON.parse(text('package.json')).scripts);
    const named = pages
      .concat('.ci/run')
      .flatMap((page) =>
        [...text(page).matchAll(/npm run (?:--silent )?([a-z:-]+)/g)].map(([, name]) => name),
      );
    expect(named.filter((name) => name !== undefined && !scripts.includes(name))).toEqual([]);
  });

  it('no two tests of one file have one title, and none is switched off', () => {
    const tests = tracked.filter((file) => file.endsWith('.test.ts'));
    for (const file of tests) {
      const titles = [...text(file).matchAll(/^\s*it\('((?:[^'\\]|\\.)+)'/gm)].map(([, title]) => title);
      expect([file, ...titles.filter((title, at) => titles.indexOf(title) !== at)]).toEqual([file]);
      expect(/\b(it|describe|test)\.(only|todo|skip)\(/.test(text(file)), file).toBe(false);
    }
  });
});
