import { execFileSync, spawn } from 'node:child_process';
import { chown, mkdir, mkdtemp, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dvo, MAIN } from '../support/command.ts';
import { Stage } from '../support/stage.ts';
import { hasTmux, Tmux } from '../support/tmux.ts';
import { until } from '../support/until.ts';

describe('dvo exec', () => {
  it('O7: runs a command where the session works, with its streams and its exit code', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await stage.run('devin-anna', 'echo precious > work.txt');
    const seen = await dvo(stage.env, ['exec', 'devin-a', '--', 'cat', 'work.txt']);
    expect(seen).toEqual({ code: 0, out: 'precious\n', err: '' });
    const script = 'cat; echo no >&2; exit 42';
    const fed = await dvo(stage.env, ['exec', 'devin-anna', '--', 'sh', '-c', script], 'in\n');
    expect(fed).toEqual({ code: 42, out: 'in\n', err: 'no\n' });
    const words = await dvo(stage.env, [
      'exec',
      'devin-anna',
      '--',
      'printf',
      '[%s]',
      '-n',
      'a b',
      '$HOME',
      '',
    ]);
    expect(words.out).toBe('[-n][a b][$HOME][]');
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
    const sum = await dvo(stage.env, ['exec', 'devin-anna', '--', 'od', '-An', '-v', '-tu1'], bytes);
    expect(sum.out.trim().split(/\s+/).map(Number)).toEqual([...bytes]);
    const { code, err } = await dvo(stage.env, ['exec', 'devin-anna', '--', 'no-such-command']);
    expect(code).toBe(127);
    expect(err).toContain('no-such-command');
  });

  it('O7: streams while the command runs, and ends it with Ctrl-C', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const before = await stage.facts.processes();
    const command = ['exec', 'devin-anna', '--', 'sh', '-c', 'echo ready; sleep 600'];
    const child = spawn(process.execPath, [MAIN, ...command], { env: stage.env });
    let out = '';
    child.stdout.on('data', (piece: Buffer) => (out += piece.toString()));
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    await until(() => out.includes('ready'));
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    await until(async () => (await stage.facts.processes()) === before);
  });

  it('O7: says why there is nothing to go into', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    stage.emulator.sleep('devin-anna');
    await stage.asleep('devin-anna');
    const asleep = await dvo(stage.env, ['exec', 'devin-anna', '--', 'true']);
    expect(asleep).toMatchObject({ code: 125, err: expect.stringContaining('asleep since') });
    const nobody = await dvo(stage.env, ['exec', 'nobody', '--', 'true']);
    expect(nobody).toMatchObject({ code: 125, err: expect.stringContaining('dvo status') });
    const unnamed = await dvo(stage.env, ['exec', '', '--', 'true']);
    expect(unnamed).toMatchObject({ code: 125, err: expect.stringContaining('name is empty') });
    const shell = await dvo(stage.env, ['shell', 'devin-anna']);
    expect(shell).toMatchObject({ code: 125, err: expect.stringContaining('terminal') });
  });
});

describe('dvo cp', () => {
  it('O7: copies files and folders in and out, as cp does', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    const folder = await mkdtemp(join(tmpdir(), 'dvo-cp-test-'));
    const copy = async (from: string, to: string) => await dvo(stage.env, ['cp', from, to]);
    const inside = async (script: string): Promise<string> =>
      (await dvo(stage.env, ['exec', 'devin-anna', '--', 'sh', '-c', script])).out;
    try {
      const odd = `it's "odd" $(x) ä`;
      await mkdir(join(folder, 'tree', odd), { recursive: true });
      await writeFile(join(folder, 'tree', odd, 'bytes'), Buffer.from([0, 255, 10, 13, 0]));
      await symlink(`${odd}/bytes`, join(folder, 'tree', 'link'));
      expect(await copy(join(folder, 'tree'), 'devin-anna:new/place')).toEqual({ code: 0, out: '', err: '' });
      expect(await inside('ls -A new/place | wc -l')).toBe('2\n');
      expect((await copy('devin-anna:new/place', join(folder, 'back'))).code).toBe(0);
      expect(await readFile(join(folder, 'back', odd, 'bytes'))).toEqual(Buffer.from([0, 255, 10, 13, 0]));
      expect(await readlink(join(folder, 'back', 'link'))).toBe(`${odd}/bytes`);
      await inside('echo more > new/place/more');
      expect((await copy('devin-anna:new/place/.', join(folder, 'back'))).code).toBe(0);
      expect(await readFile(join(folder, 'back', 'place', 'more'), 'utf8')).toBe('more\n');
      await writeFile(join(folder, 'notes.txt'), 'mine');
      expect((await copy(join(folder, 'notes.txt'), 'devin-anna:')).code).toBe(0);
      expect(await inside('cat notes.txt; ls -A | grep -c dvo-cp || true')).toBe('mine0\n');
      expect((await copy(join(folder, 'notes.txt'), 'devin-anna:made/')).code).toBe(0);
      expect(await inside('cat made/notes.txt')).toBe('mine');
      const missing = await copy('devin-anna:nothing/here', folder);
      expect(missing).toMatchObject({ code: 1, err: expect.stringContaining('nothing/here') });
      const blocked = await copy(join(folder, 'tree'), 'devin-anna:notes.txt');
      expect(blocked).toMatchObject({ code: 1, err: expect.stringContaining('in the way') });
      expect((await copy(folder, folder)).code).toBe(2);
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

const NOBODY = 'nobody';
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn('SKIPPED, no other user to become: the tests do not run as root');

describe.skipIf(!isRoot)('dvo exec and dvo cp, with SANDBOX_USER', () => {
  it('work as the user that the remote runs as', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    // Outside of STATE_DIR, which nobody else may enter.
    const workdir = await mkdtemp(join(tmpdir(), 'dvo-user-test-'));
    const env = { ...stage.env, SANDBOX_USER: NOBODY, WORKDIR: workdir };
    const uid = Number(execFileSync('id', ['-u', NOBODY]));
    const gid = Number(execFileSync('id', ['-g', NOBODY]));
    try {
      await chown(workdir, uid, gid);
      const script = 'id -un; id -gn; echo "$USER $LOGNAME"; pwd; echo mine > file';
      const { code, out } = await dvo(env, ['exec', 'devin-anna', '--', 'sh', '-c', script]);
      const group = execFileSync('id', ['-gn', NOBODY], { encoding: 'utf8' }).trim();
      expect([code, out]).toEqual([0, `${NOBODY}\n${group}\n${NOBODY} ${NOBODY}\n${workdir}\n`]);
      const tree = join(stage.stateDir, 'tree');
      await mkdir(join(tree, 'below'), { recursive: true });
      await writeFile(join(tree, 'below', 'notes.txt'), 'notes');
      expect(await dvo(env, ['cp', tree, 'devin-anna:new/place/'])).toEqual({ code: 0, out: '', err: '' });
      for (const path of ['file', 'new', 'new/place', 'new/place/tree', 'new/place/tree/below/notes.txt'])
        expect(await stat(join(workdir, path)), path).toMatchObject({ uid, gid });
      const strange = await dvo({ ...env, SANDBOX_USER: 'no-such-user' }, ['exec', 'devin-anna', '--', 'id']);
      expect(strange).toMatchObject({ code: 125, out: '', err: expect.stringContaining('no-such-user') });
    } finally {
      await rm(workdir, { recursive: true });
    }
  });
});

if (!hasTmux) console.warn('SKIPPED, no terminal to test in: tmux is not installed');

describe.skipIf(!hasTmux)('dvo shell', () => {
  const SIZE = { columns: 100, rows: 30 };
  const saw = async (person: Tmux, text: RegExp): Promise<string> =>
    await until(
      async () => {
        const screen = await person.screen();
        return text.test(screen) && screen;
      },
      { what: `the screen shows ${text}` },
    );

  it('O7: is a shell of the terminal’s size, also when that changes, and leaves the terminal as it was', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await using person = new Tmux(stage.env, SIZE);
    await person.line('stty -g > $STATE_DIR/before');
    await person.line(`${process.execPath} ${MAIN} shell devin-anna`);
    await saw(person, /[$#]$/);
    await person.line('echo "<$(stty size)>" "in $PWD"');
    await saw(person, /<30 100> in \S*local/);
    await person.resize(80, 20);
    await until(async () => {
      await person.line('echo "<$(stty size)>"');
      return (await person.screen()).includes('<20 80>');
    });
    await person.line('clear; echo sleeping; sleep 600');
    await saw(person, /^sleeping$/m);
    await person.key('C-c');
    await person.line('echo "code $?"');
    await saw(person, /code 130/);
    await person.line('exit 9');
    await saw(person, /here>$/);
    await person.line('echo "left with $?"; stty -g | cmp - $STATE_DIR/before && echo as before');
    await saw(person, /left with 9\nas before/);
  });

  it('O7: gives the terminal back when the sandbox goes', async () => {
    await using stage = await Stage.start();
    await stage.serve('devin-anna');
    await using person = new Tmux(stage.env, SIZE);
    await person.line('stty -g > $STATE_DIR/before');
    await person.line(`${process.execPath} ${MAIN} shell devin-anna`);
    await saw(person, /[$#]$/);
    stage.emulator.terminate('devin-anna');
    await saw(person, /here>$/);
    await person.line('stty -g | cmp - $STATE_DIR/before && echo as before');
    await saw(person, /^as before/m);
  });
});
