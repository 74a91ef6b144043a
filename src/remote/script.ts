/**
 * Running a script in a sandbox and believing nothing but its last word: a marker with a fresh nonce, printed when it
 * came to its end. A lost stream, a runtime that always says 0, a script that never ran: none of them can print it.
 */
import type { Random } from '../lib/clock.ts';
import type { Call } from '../lib/deadline.ts';
import { DvoError } from '../lib/errors.ts';
import type { SandboxProvider } from '../sandboxes/provider.ts';
import { assignments } from './quote.ts';

export interface Script {
  /** For logs and errors: "probe". */
  readonly name: string;
  /** Variables at the script's head, quoted. Nothing secret: arguments can be read by anyone in the sandbox. */
  readonly values: Readonly<Record<string, string>>;
  /** Bash. Calls `finish word…` when it succeeded, `fail word…` when it did not; words hold no white space. */
  readonly body: string;
  /** What the script reads from its standard input. Secrets go here. */
  readonly stdin?: string;
}

export type Words = readonly [verb: string, ...rest: string[]];

export class ScriptRunner {
  readonly #provider: SandboxProvider;
  readonly #random: Random;

  constructor(provider: SandboxProvider, random: Random) {
    this.#provider = provider;
    this.#random = random;
  }

  /**
   * The words of the script's `finish`.
   * @throws DvoError `remote` when it said `fail`, or nothing that can be believed (then the outcome is unknown);
   *   what the provider's exec throws
   */
  async run(sandboxId: string, script: Script, call: Call): Promise<Words> {
    const nonce = this.#random.id();
    const text = `${PRELUDE}\n${assignments({ ...script.values, nonce })}\n${script.body}\n`;
    const { stdin } = script;
    const request = { argv: ['bash', '-c', text, 'dvo'], ...(stdin === undefined ? {} : { stdin }) };
    const result = await this.#provider.exec(sandboxId, request, call);
    const said = lastWord(result.stdout, nonce);
    if (said === undefined) {
      const detail = result.truncated ? 'its output was cut' : excerpt(result.stderr);
      throw new DvoError(
        'remote',
        `${script.name}: no answer from the sandbox (exit ${result.exitCode}): ${detail}`,
      );
    }
    const [outcome, verb, ...rest] = said;
    if (outcome === 'ok' && verb !== undefined) return [verb, ...rest];
    const why = [verb, ...rest].filter((word) => word !== undefined).join(' ');
    throw new DvoError('remote', `${script.name}: ${why}: ${excerpt(result.stderr)}`);
  }
}

const PRELUDE = `set -u
umask 077
finish() { printf '\\ndvo:%s ok %s end\\n' "$nonce" "$*"; exit 0; }
fail() { printf '\\ndvo:%s failed %s end\\n' "$nonce" "$*"; exit 1; }`;

/** Undefined without a whole marker: a cut pid is a pid too, so a line that lacks its `end` says nothing. */
function lastWord(stdout: string, nonce: string): readonly string[] | undefined {
  const line = stdout.split('\n').findLast((one) => one.startsWith(`dvo:${nonce} `));
  const words = line?.trimEnd().split(' ') ?? [];
  return words.at(-1) === 'end' ? words.slice(1, -1) : undefined;
}

const EXCERPT_LENGTH = 300;

function excerpt(text: string): string {
  return text.trim().slice(-EXCERPT_LENGTH).replaceAll(/\s+/g, ' ');
}
