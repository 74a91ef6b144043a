/** `dvo doctor`: everything that a daemon needs, looked at in order, each failure with its cause and its fix. */
import { listed, type Config } from '../../config/config.ts';
import type { Problem } from '../../config/reader.ts';
import { VARIABLES } from '../../config/variables.ts';
import type { Clock, Random } from '../../lib/clock.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { Redactor } from '../../lib/secret.ts';
import { createHttp, type Http } from '../../outposts/http.ts';
import { STATUS_VIEW } from '../../ops/view.ts';
import type { SandboxProvider } from '../../sandboxes/provider.ts';
import { askDaemon } from '../ask-daemon.ts';
import { openQuietProvider } from '../quiet-provider.ts';
import { examine } from '../read-config.ts';
import { EXIT, searchPath, type ExitCode, type Terminal } from '../terminal.ts';
import { fail, pass, runChecks, skip, type Check, type Outcome } from './check.ts';
import { devinChecks } from './devin-checks.ts';
import { platformChecks } from './platform-checks.ts';
import { allWell, jsonReport, outcomeText, summary } from './report.ts';
import { smokeChecks } from './smoke.ts';
import { stateCheck } from './state-check.ts';

export interface DoctorFlags {
  readonly json?: boolean;
  readonly deep?: boolean;
  readonly smoke?: boolean;
}

export interface DoctorTools {
  readonly clock: Clock;
  readonly random: Random;
  readonly http: Http;
  /** Another way to a provider than the configured one. */
  readonly open?: () => Promise<SandboxProvider>;
  /** Aborted: stop, and clear up. */
  readonly signal: AbortSignal;
}

const BODY_SILENCE_MS = 30_000;

export async function runDoctor(flags: DoctorFlags, terminal: Terminal): Promise<ExitCode> {
  const stop = new AbortController();
  let signals = 0;
  const onSignal = (): void => {
    signals += 1;
    if (signals > 1) process.exit(EXIT.failed);
    terminal.err('\nstopping, and removing what was made; once more to end at once\n');
    stop.abort();
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  const http = createHttp({ bodyTimeoutMs: BODY_SILENCE_MS });
  try {
    return await doctor(flags, terminal, {
      clock: systemClock,
      random: systemRandom,
      http,
      signal: stop.signal,
    });
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    await http.close();
  }
}

/** 0: nothing failed · 1: something failed, or was asked for and not run · 2: the configuration is wrong. */
export async function doctor(flags: DoctorFlags, terminal: Terminal, tools: DoctorTools): Promise<ExitCode> {
  const redactor = new Redactor();
  const say = (text: string): void => terminal.out(redactor.scrub(text));
  const live = terminal.interactive && flags.json !== true;
  const { config, problems } = examine(terminal, redactor);
  await using opened = new AsyncDisposableStack();
  const checks = [
    configCheck(config, problems),
    ...checksOf(config, flags, { terminal, redactor, opened, ...tools }).map((check) =>
      withheld(check, problems),
    ),
  ];
  const outcomes = await runChecks(checks, {
    clock: tools.clock,
    signal: tools.signal,
    onStart: ({ title }) => {
      if (live) say(`… ${title}`);
    },
    onOutcome: (outcome) => {
      if (flags.json !== true) say(`${live ? '\r\u001b[K' : ''}${outcomeText(outcome, terminal.color)}`);
    },
  });
  say(flags.json === true ? jsonReport(outcomes) : summary(outcomes));
  return exitCode(outcomes, tools.signal);
}

function exitCode(outcomes: readonly Outcome[], signal: AbortSignal): ExitCode {
  if (outcomes[0]?.finding.state === 'fail') return EXIT.config;
  return allWell(outcomes) && !signal.aborted ? EXIT.ok : EXIT.failed;
}

function configCheck({ warnings }: Config, problems: readonly Problem[]): Check {
  return {
    id: 'config',
    title: 'the configuration is complete and right',
    async run() {
      if (problems.length === 0) return pass(warnings.length === 0 ? 'no warnings' : warnings.join('; '));
      return fail(
        listed(problems),
        'set these variables; .env.example describes each, and dvo connect writes those of Devin',
      );
    },
  };
}

/** The groups of variables, and single ones, without which a check cannot find out anything. */
const READS: Readonly<Record<string, readonly string[]>> = {
  token: ['Devin'],
  outpost: ['Devin'],
  clock: ['Devin'],
  platform: ['Devin', 'Sandboxes', 'CoreWeave'],
  binary: ['Remote'],
  state: ['STATE_DIR'],
};

/** Not run with what is wrong: it would blame something else. */
function withheld(check: Check, problems: readonly Problem[]): Check {
  const reads = READS[check.id] ?? [];
  const missing = problems
    .map(({ variable }) => variable)
    .filter((variable) => reads.includes(variable) || reads.includes(groupOf(variable) ?? ''));
  if (missing.length === 0) return check;
  return { ...check, run: async () => skip(`needs ${missing.join(', ')}`) };
}

function groupOf(variable: string): string | undefined {
  return VARIABLES.find(({ name }) => name === variable || `${name}_FILE` === variable)?.group;
}

interface Surroundings extends DoctorTools {
  readonly terminal: Terminal;
  readonly redactor: Redactor;
  readonly opened: AsyncDisposableStack;
}

function checksOf(config: Config, flags: DoctorFlags, around: Surroundings): readonly Check[] {
  const { clock, random, http, redactor, terminal, opened } = around;
  const parts = { config, clock, random, redactor, path: searchPath(terminal) };
  let opening: Promise<SandboxProvider> | undefined;
  const open = (): Promise<SandboxProvider> => (opening ??= openOnce());
  const openOnce = async (): Promise<SandboxProvider> => {
    const provider = await (around.open?.() ?? openQuietProvider(parts));
    opened.defer(() => provider.close());
    return provider;
  };
  const devin = devinChecks({ config, clock, random, redactor, fetch: http.fetch });
  const platform = platformChecks({
    config,
    clock,
    random,
    depth: flags.deep === true ? 'deep' : 'shallow',
    open,
  });
  const smoke = smokeChecks({
    word: `dvo-smoke-${random.id().slice(0, 8)}`,
    clock,
    open,
    look: () => askDaemon(config.stateDir, http.fetch, { path: '/api/status', answer: STATUS_VIEW }),
    tell: (text) => terminal.err(`\n→ ${text}\n`),
    suspendMode: config.archives.suspendMode,
  });
  return [
    ...devin.filter(({ id }) => id !== 'binary'),
    ...platform.map((check) => ({ ...check, asked: flags.deep === true })),
    ...devin.filter(({ id }) => id === 'binary'),
    stateCheck(config.stateDir, clock),
    ...(flags.smoke === true ? smoke.map((check) => ({ ...check, asked: true })) : []),
  ];
}
