/** A terminal with a person in front of it: tmux, on a socket of its own. */
import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Debian's `tmux`. Without it the tests that need a terminal are skipped, and say so. */
export const hasTmux = spawnSync('tmux', ['-V']).status === 0;

export class Tmux implements AsyncDisposable {
  readonly #folder: string;

  constructor(
    env: Readonly<Record<string, string>>,
    size: { readonly columns: number; readonly rows: number },
  ) {
    this.#folder = mkdtempSync(join(tmpdir(), 'dvo-tmux-'));
    const rc = Object.entries({ ...env, PS1: 'here> ' }).map(
      ([name, value]) => `export ${name}='${value.replaceAll("'", String.raw`'\''`)}'`,
    );
    writeFileSync(join(this.#folder, 'rc'), `${rc.join('\n')}\n`);
    const { columns, rows } = size;
    const shell = `bash --noprofile --rcfile ${join(this.#folder, 'rc')} -i`;
    spawnSync(
      'tmux',
      [...this.#socket, 'new-session', '-d', '-x', String(columns), '-y', String(rows), shell],
      {
        env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm-256color', LANG: 'C.UTF-8' },
      },
    );
  }

  /** Types a line and Enter. */
  async line(text: string): Promise<void> {
    await this.type(text);
    await this.key('Enter');
  }

  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-l', text);
  }

  /** Presses a key by tmux's name for it, like `C-c`. */
  async key(name: string): Promise<void> {
    await this.#tmux('send-keys', name);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux('resize-window', '-x', String(columns), '-y', String(rows));
  }

  /** What is to be seen now, without trailing blanks. */
  async screen(): Promise<string> {
    const { stdout } = await this.#tmux('capture-pane', '-p');
    return stdout.replaceAll(/[ \t]+$/gm, '').trimEnd();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tmux('kill-server').catch(() => undefined);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #socket(): readonly string[] {
    return ['-f', '/dev/null', '-S', join(this.#folder, 'socket')];
  }

  async #tmux(...args: readonly string[]): Promise<{ readonly stdout: string }> {
    return await run('tmux', [...this.#socket, ...args]);
  }
}
