/** `dvo connect`: an administrator agrees in the browser, and `.env` holds what a daemon needs of Devin. */
import { bareApiUrl, DEVIN_API_URL } from '../../lib/api-url.ts';
import type { Clock, Random } from '../../lib/clock.ts';
import { systemClock, systemRandom } from '../../lib/clock.ts';
import { unstopped, withDeadline } from '../../lib/deadline.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import type { Fetch } from '../../lib/fetch.ts';
import { isLoopbackUrl } from '../../lib/loopback.ts';
import { Redactor } from '../../lib/secret.ts';
import {
  connectPage,
  exchangeCode,
  newAttempt,
  type Attempt,
  type Connected,
} from '../../outposts/connect.ts';
import { createHttp } from '../../outposts/http.ts';
import { nodeDisk } from '../../state/node-disk.ts';
import { portOf } from '../port.ts';
import { EXIT, type ExitCode, type Terminal } from '../terminal.ts';
import { openBrowser } from './browser.ts';
import { EnvFile, namesSetIn } from './env-file.ts';
import { CallbackListener } from './listener.ts';

export interface ConnectFlags {
  readonly name: string;
  readonly platform: string;
  readonly port: string;
  readonly envFile: string;
  readonly appUrl: string;
}

export interface ConnectTools {
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: Fetch;
}

/** Devin's codes live as long; whoever has not agreed by then starts again. */
const PATIENCE_MS = 600_000;
const EXCHANGE_MS = 30_000;

export async function runConnect(flags: ConnectFlags, terminal: Terminal): Promise<ExitCode> {
  const http = createHttp({ bodyTimeoutMs: EXCHANGE_MS });
  try {
    return await connectOutpost(flags, terminal, {
      clock: systemClock,
      random: systemRandom,
      fetch: http.fetch,
    });
  } finally {
    await http.close();
  }
}

/** Every ending that is not success is one line on standard error, and an exit code. */
export async function connectOutpost(
  flags: ConnectFlags,
  terminal: Terminal,
  tools: ConnectTools,
): Promise<ExitCode> {
  const redactor = new Redactor();
  try {
    await connect(flags, terminal, tools, redactor);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof DvoError)) throw error;
    terminal.err(`dvo connect: ${redactor.scrub(describeError(error))}\n`);
    return error.code === 'config' ? EXIT.config : EXIT.failed;
  }
}

async function connect(
  flags: ConnectFlags,
  terminal: Terminal,
  tools: ConnectTools,
  redactor: Redactor,
): Promise<void> {
  const appUrl = safeUrl('--app-url', flags.appUrl);
  const apiUrl = safeUrl('DEVIN_API_URL', apiUrlIn(terminal));
  const file = await EnvFile.at(flags.envFile, nodeDisk);
  if (namesSetIn(await file.read()).has('DEVIN_OUTPOSTS_TOKEN_FILE')) {
    throw new DvoError(
      'config',
      `${file.path} sets DEVIN_OUTPOSTS_TOKEN_FILE, and only one of the two may be set; remove that line, or choose another --env-file`,
    );
  }
  await using listener = await CallbackListener.open(portOf('--port', flags.port));
  const attempt = newAttempt(tools.random);
  const page = connectPage(appUrl, attempt, { ...flags, callbackUrl: listener.url });
  terminal.out(
    `An administrator of your Devin account has to agree to the outpost ${JSON.stringify(flags.name)}, on this machine, at:\n\n  ${page}\n\nWaiting for ten minutes; Ctrl-C gives up.\n`,
  );
  if (terminal.interactive) openBrowser(page);
  try {
    const code = await codeFrom(listener, attempt, tools.clock);
    const options = { ...tools, apiUrl, redactor };
    const connected = await exchangeCode(options, code, attempt, unstopped(EXCHANGE_MS));
    await file.set(variablesOf(connected));
    listener.end({
      ok: true,
      title: 'Connected',
      text: `The outpost ${connected.outpostId} is connected. You can close this page and go back to the terminal.`,
    });
    terminal.out(lastWords(connected, file.path));
  } catch (error) {
    const text = `${redactor.scrub(describeError(error))}. Nothing was changed.`;
    listener.end({ ok: false, title: 'Not connected', text });
    throw error;
  }
}

async function codeFrom(listener: CallbackListener, attempt: Attempt, clock: Clock): Promise<string> {
  const answer = await withDeadline(clock, 'wait', unstopped(PATIENCE_MS), () => listener.answered()).catch(
    (error: unknown) => {
      if (!(error instanceof DvoError && error.code === 'deadline')) throw error;
      throw new DvoError('deadline', 'nobody agreed within ten minutes; run dvo connect again');
    },
  );
  if (answer.kind === 'refused') {
    const denied = answer.error === 'access_denied';
    throw new DvoError(
      'api',
      denied ? 'the administrator said no (access_denied)' : `Devin refused: ${answer.error}`,
    );
  }
  // The contract does not promise that the state comes back. PKCE guards the code by itself; a state that does come
  // back, and is another's, says so a step earlier.
  if (answer.state !== undefined && answer.state !== attempt.state) {
    throw new DvoError(
      'api',
      'the browser brought the answer to another attempt; close its old pages, and run dvo connect again',
    );
  }
  return answer.code;
}

function variablesOf({ token, apiUrl, outpostId }: Connected): Readonly<Record<string, string>> {
  return { DEVIN_OUTPOSTS_TOKEN: token.reveal(), DEVIN_API_URL: apiUrl, OUTPOST_ID: outpostId };
}

function lastWords({ outpostId, outpostName }: Connected, path: string): string {
  const named = outpostName === '' ? '' : ` (${outpostName})`;
  return `\nConnected: ${outpostId}${named}.\n${path} holds its token now, readable by you alone.\nNext: set -a; . ${path}; set +a; dvo doctor\n`;
}

function apiUrlIn(terminal: Terminal): string {
  const given = terminal.env['DEVIN_API_URL'] ?? '';
  return bareApiUrl(given === '' ? DEVIN_API_URL : given);
}

/** @throws DvoError `config`: codes and tokens travel there */
function safeUrl(name: string, url: string): string {
  if (URL.canParse(url) && (url.startsWith('https://') || isLoopbackUrl(url))) return url;
  throw new DvoError('config', `${name} is ${JSON.stringify(url)}; it must be an https URL`);
}
