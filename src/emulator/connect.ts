/** Connecting an outpost (PKCE): the page that asks an administrator, and the exchange of its code for a token. */
import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Clock, Random } from '../lib/clock.ts';
import { sendJson, sendText } from './http.ts';
import type { Knobs } from './settings.ts';

export interface ConnectOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly knobs: Knobs;
  readonly outpostId: string;
  readonly apiUrl: () => string;
}

/** Codes are single-use and live ten minutes. */
const CODE_LIFE_MS = 600_000;

export class Connect {
  readonly #options: ConnectOptions;
  readonly #codes = new Map<
    string,
    { readonly challenge: string; readonly name: string; readonly until: number }
  >();

  constructor(options: ConnectOptions) {
    this.#options = options;
  }

  /** The administrator answers at once, as the knob says: the browser is sent back with a code, or with an error. */
  authorize(query: URLSearchParams, response: ServerResponse): void {
    const callback = query.get('callback_url') ?? '';
    const challenge = query.get('code_challenge');
    if (!URL.canParse(callback) || challenge === null) {
      sendText(response, 400, 'callback_url or code_challenge is missing');
      return;
    }
    const { clock, random, knobs } = this.#options;
    const target = new URL(callback);
    const state = query.get('state');
    if (state !== null) target.searchParams.set('state', knobs.consent === 'forged' ? 'of-another' : state);
    if (knobs.consent === 'deny') {
      target.searchParams.set('error', 'access_denied');
      response.writeHead(302, { location: target.href }).end();
      return;
    }
    const code = random.id();
    this.#codes.set(code, {
      challenge,
      name: query.get('outpost_name') ?? '',
      until: clock.now() + CODE_LIFE_MS,
    });
    target.searchParams.set('code', code);
    response.writeHead(302, { location: target.href }).end();
  }

  exchange(form: URLSearchParams, response: ServerResponse): void {
    const { clock, knobs, outpostId, apiUrl } = this.#options;
    const code = form.get('code') ?? '';
    const known = this.#codes.get(code);
    this.#codes.delete(code);
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const valid = known !== undefined && clock.now() < known.until && challenge === known.challenge;
    if (form.get('grant_type') !== 'authorization_code' || !valid) {
      sendJson(response, 400, {
        error: 'invalid_grant',
        error_description: 'the code is used, expired or not yours',
      });
      return;
    }
    sendJson(response, 200, {
      outpost_id: outpostId,
      account_id: 'account-emulator',
      outpost_name: known.name,
      service_user_id: 'service-user-emulator',
      api_base_url: apiUrl(),
      access_token: knobs.token,
      token_type: 'bearer',
    });
  }
}
