/** The demo's progress: one live line per session on a terminal, plain lines elsewhere. */
import { paint, type Terminal } from '../terminal.ts';

export class Screen {
  readonly #terminal: Terminal;
  readonly #lines = new Map<string, string>();
  #drawn = 0;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** A line of its own, above the live ones. */
  say(text: string): void {
    this.#erase();
    this.#terminal.out(`${text}\n`);
    this.#draw();
  }

  /** The session's state changed. */
  show(sessionId: string, text: string): void {
    if (this.#lines.get(sessionId) === text) return;
    this.#lines.set(sessionId, text);
    if (!this.#terminal.interactive) {
      this.#terminal.out(`    ${sessionId}  ${text}\n`);
      return;
    }
    this.#erase();
    this.#draw();
  }

  tick(passed: boolean, text: string): void {
    this.say(`  ${this.#paint(passed ? '✔' : '✖', passed ? 32 : 31)} ${text}`);
  }

  /** Leaves the live lines where they are. */
  done(): void {
    this.#erase();
    this.#lines.clear();
  }

  #erase(): void {
    if (this.#drawn > 0) this.#terminal.out(`\u001b[${this.#drawn}A\u001b[J`);
    this.#drawn = 0;
  }

  #draw(): void {
    if (!this.#terminal.interactive) return;
    for (const [sessionId, text] of this.#lines)
      this.#terminal.out(`    ${this.#paint(sessionId, 2)}  ${text}\n`);
    this.#drawn = this.#lines.size;
  }

  #paint(text: string, code: number): string {
    return paint(this.#terminal.color, code, text);
  }
}
