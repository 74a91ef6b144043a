/**
 * Who may look. Without OPS_TOKEN, whoever reaches loopback under a loopback name (so that no web site can, by pointing
 * its own name here). With it: scripts send it as bearer, people trade it for a cookie that is worth nothing elsewhere.
 * The token never stands in a URL, a cookie or a log line.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Clock, Random } from '../lib/clock.ts';
import { isLoopbackHost } from '../lib/loopback.ts';
import type { Secret } from '../lib/secret.ts';

export interface AccessOptions {
  /** The address that is listened on. */
  readonly host: string;
  /** OPS_TOKEN as it is now; undefined: there is none. */
  readonly token?: (() => Secret) | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * operator: has read the control token beside the daemon's state, so may command too · misdirected: asked for under a
 * name that is not ours · foreign: sent by a page of another site.
 */
export type Visitor = 'operator' | 'known' | 'stranger' | 'misdirected' | 'foreign';

const COOKIE = 'dvo_ops';
const COOKIE_SECONDS = 12 * 3_600;

export class Access {
  readonly #options: AccessOptions;
  /** Cookies of an earlier process are worth nothing. */
  readonly #key: string;
  /** For the commands beside this process, which find it in STATE_DIR. Never sent to a browser, and never logged. */
  readonly control: string;

  constructor(options: AccessOptions) {
    this.#options = options;
    this.control = options.random.id() + options.random.id();
    this.#key = options.random.id() + options.random.id();
  }

  /** Nobody has to log in. */
  get isOpen(): boolean {
    return this.#options.token === undefined;
  }

  judge(request: IncomingMessage): Visitor {
    const { token } = this.#options;
    const { host, origin, authorization, cookie } = request.headers;
    if (token === undefined && !this.#isOurName(host)) return 'misdirected';
    if (request.method !== 'GET' && origin !== undefined && !isSame(origin, host)) return 'foreign';
    const [, bearer] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization ?? '') ?? [];
    if (bearer !== undefined && isEqual(bearer, this.control)) return 'operator';
    if (token === undefined) return 'known';
    if (bearer !== undefined && this.isToken(bearer)) return 'known';
    return this.#isCookie(cookie ?? '') ? 'known' : 'stranger';
  }

  isToken(given: string): boolean {
    const { token } = this.#options;
    return token !== undefined && isEqual(given, token().reveal());
  }

  /** The value of `set-cookie` for somebody who has shown the token. */
  cookie(): string {
    const endsAt = this.#options.clock.now() + COOKIE_SECONDS * 1_000;
    return `${COOKIE}=${endsAt}.${this.#sign(endsAt)}; Max-Age=${COOKIE_SECONDS}; Path=/; HttpOnly; SameSite=Strict`;
  }

  get noCookie(): string {
    return `${COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`;
  }

  #isCookie(header: string): boolean {
    return header.split(/;\s*/).some((pair) => {
      const [, endsAt, signature] = /^dvo_ops=(\d{1,15})\.([0-9a-f]{64})$/.exec(pair) ?? [];
      if (endsAt === undefined || signature === undefined) return false;
      return isEqual(signature, this.#sign(Number(endsAt))) && this.#options.clock.now() < Number(endsAt);
    });
  }

  /** Bound to the token: replacing it ends every login. */
  #sign(endsAt: number): string {
    const token = this.#options.token?.().reveal() ?? '';
    return createHmac('sha256', this.#key).update(`${endsAt}.${token}`).digest('hex');
  }

  #isOurName(host: string | undefined): boolean {
    if (host === undefined || !URL.canParse(`http://${host}`)) return false;
    const { hostname } = new URL(`http://${host}`);
    return isLoopbackHost(hostname) || hostname === this.#options.host.toLowerCase();
  }
}

function isSame(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host;
}

/** In a time that does not depend on where the two differ. */
function isEqual(left: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}
