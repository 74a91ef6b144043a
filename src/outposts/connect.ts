/**
 * Connecting an outpost: PKCE's verifier and challenge, the page to open, and the exchange of the code for a token. The
 * token comes over our own TLS connection and never through the browser.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { bareApiUrl } from '../lib/api-url.ts';
import type { Clock, Random } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import { readText, type Fetch } from '../lib/fetch.ts';
import { parseJson } from '../lib/json.ts';
import { isLoopbackUrl } from '../lib/loopback.ts';
import { Secret, type Redactor } from '../lib/secret.ts';
import { ApiError } from './outposts.ts';

/** One attempt. `state` tells its answer from that to another attempt. */
export interface Attempt {
  readonly verifier: string;
  readonly state: string;
}

export interface Connected {
  readonly outpostId: string;
  readonly outpostName: string;
  /** Without `/opbeta` and without a final slash. */
  readonly apiUrl: string;
  readonly token: Secret;
}

export interface ExchangeOptions {
  readonly apiUrl: string;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly redactor: Redactor;
}

const LARGEST_ANSWER_BYTES = 64_000;

export function newAttempt(random: Random): Attempt {
  // 64 hex digits: inside PKCE's 43 to 128, with twice the randomness of an id.
  return { verifier: random.id() + random.id(), state: random.id() };
}

/** The page on which an administrator agrees. */
export function connectPage(
  appUrl: string,
  attempt: Attempt,
  about: { readonly callbackUrl: string; readonly name: string; readonly platform: string },
): string {
  const query = new URLSearchParams({
    callback_url: about.callbackUrl,
    outpost_name: about.name,
    platform: about.platform,
    code_challenge: createHash('sha256').update(attempt.verifier).digest('base64url'),
    state: attempt.state,
  });
  return `${appUrl.replace(/\/+$/, '')}/outposts/connect?${query.toString()}`;
}

/** What goes into a line of `.env` as it is: nothing that a shell would read as something else. */
const plain = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._+/=@:-]*$/);
const ANSWER = z.object({
  outpost_id: plain,
  outpost_name: z.string().catch(''),
  api_base_url: plain.refine((url) => url.startsWith('https://') || isLoopbackUrl(url)),
  access_token: plain,
});
const REFUSAL = z.object({ error: z.string() });

/** @throws ApiError; its message says when a new start is needed. `deadline`, `aborted` */
export async function exchangeCode(
  options: ExchangeOptions,
  code: string,
  attempt: Attempt,
  call: Call,
): Promise<Connected> {
  const { apiUrl, fetch, clock, redactor } = options;
  const operation = 'exchange the code';
  return await withDeadline(clock, operation, call, async (signal) => {
    const form = { grant_type: 'authorization_code', code, code_verifier: attempt.verifier };
    try {
      const response = await fetch(`${apiUrl}/outposts/connection-token`, {
        method: 'POST',
        headers: {
          accept: 'application/json',
          'content-type': 'application/x-www-form-urlencoded',
          'cache-control': 'no-store',
        },
        body: new URLSearchParams(form).toString(),
        redirect: 'manual',
        signal,
      });
      const text = (await readText(response, LARGEST_ANSWER_BYTES)) ?? '';
      if (response.status !== 200) throw refused(response.status, text);
      return connected(text, redactor);
    } catch (error) {
      if (error instanceof DvoError) throw error;
      throw new ApiError(`${apiUrl} cannot be reached: ${describeError(error)}`, { operation, cause: error });
    }
  });
}

function refused(status: number, text: string): ApiError {
  const refusal = REFUSAL.safeParse(parseJson(text));
  if (refusal.success && refusal.data.error === 'invalid_grant') {
    return new ApiError('the code is used, expired, or not ours (invalid_grant); run dvo connect again', {
      status,
    });
  }
  return new ApiError(`Devin answered ${status} to the exchange of the code`, { status });
}

function connected(text: string, redactor: Redactor): Connected {
  const answer = ANSWER.safeParse(parseJson(text));
  if (!answer.success) {
    const fields = answer.error.issues.map((issue) => issue.path.join('.')).join(', ');
    throw new ApiError(`Devin’s answer cannot be read (${fields === '' ? 'no JSON' : fields})`, {
      status: 200,
    });
  }
  const { access_token: token, outpost_id: outpostId, outpost_name: outpostName, api_base_url } = answer.data;
  redactor.add(token);
  return { outpostId, outpostName, apiUrl: bareApiUrl(api_base_url), token: new Secret(token) };
}
