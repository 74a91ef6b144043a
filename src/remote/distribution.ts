/**
 * Which build of devin-remote, and what its bytes must hash to. The daemon reads the checksum itself, over TLS; the
 * sandbox must match it before the file can run. A SHA is resolved once, so that a moving `latest` mixes no builds.
 */
import type { Clock, Random } from '../lib/clock.ts';
import { withDeadline, type Call } from '../lib/deadline.ts';
import { describeError, DvoError } from '../lib/errors.ts';
import { readText, type Fetch } from '../lib/fetch.ts';
import { retry } from '../lib/retry.ts';
import type { RemoteBinary } from './port.ts';
import { shareRuns } from './share-runs.ts';

export interface DistributionOptions {
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly random: Random;
  /** Without a final slash. */
  readonly baseUrl: string;
  /** Used for sessions that are not pinned. */
  readonly sha: string | undefined;
}

const PLATFORM = 'linux_x64';
const SHA = /^[0-9a-f]{6,40}$/;
const DIGEST = /^([0-9a-f]{64})(?: [ *](\S+))?$/;
/** A new build is picked up this much later at most; sessions that start together ask once. */
const LATEST_FOR_MS = 60_000;
const LARGEST_ANSWER_BYTES = 4_096;

export class Distribution {
  readonly #options: DistributionOptions;
  readonly #digests = new Map<string, Promise<RemoteBinary>>();
  readonly #latest = new Map<number, Promise<string>>();

  constructor(options: DistributionOptions) {
    this.#options = options;
  }

  /** @throws DvoError `distribution`; `unreachable` */
  async resolve(pinned: string | undefined, call: Call): Promise<RemoteBinary> {
    // Whoever waits for another's run waits no longer than for one of his own.
    return await withDeadline(this.#options.clock, 'resolve the build', call, (signal) =>
      this.#resolve(pinned, { ...call, signal }),
    );
  }

  async #resolve(pinned: string | undefined, call: Call): Promise<RemoteBinary> {
    const named = pinned ?? this.#options.sha;
    const sha = named === undefined ? await this.#latestSha(call) : checkedSha(named);
    return await shareRuns(this.#digests, sha, () => this.#binary(sha, call));
  }

  async #binary(sha: string, call: Call): Promise<RemoteBinary> {
    const file = `devin-remote_${sha}_${PLATFORM}`;
    const url = `${this.#options.baseUrl}/${file}`;
    const match = DIGEST.exec((await this.#text(`${url}.sha256`, call)).toLowerCase());
    const [, digest, named] = match ?? [];
    if (digest === undefined || (named !== undefined && named !== file)) {
      throw new DvoError('distribution', `${url}.sha256 does not hold the checksum of ${file}`);
    }
    return { sha, url, sha256: digest };
  }

  async #latestSha(call: Call): Promise<string> {
    const { clock, baseUrl } = this.#options;
    const period = Math.floor(clock.now() / LATEST_FOR_MS);
    for (const past of this.#latest.keys()) if (past !== period) this.#latest.delete(past);
    // Checked within the run: only a failure of the run itself is not remembered.
    return await shareRuns(this.#latest, period, async () =>
      checkedSha(await this.#text(`${baseUrl}/latest_${PLATFORM}`, call)),
    );
  }

  /** One small text, without surrounding white space. */
  async #text(url: string, call: Call): Promise<string> {
    const { clock, random, fetch } = this.#options;
    return await withDeadline(clock, `read ${url}`, call, (signal) =>
      retry(
        {
          clock,
          random,
          signal,
          tries: 3,
          backoff: { firstMs: 200, maxMs: 2_000, factor: 2 },
          longestHintMs: 0,
          // What was published wrongly stays wrong; only an answer that did not come is asked for again.
          classify: (error) => ({ retry: !(error instanceof DvoError) }),
        },
        async () => {
          const init = {
            method: 'GET',
            headers: { accept: 'text/plain' },
            signal,
            redirect: 'follow',
          } as const;
          const response = await fetch(url, init);
          if (response.status >= 500) throw new TypeError(`${url} answered ${response.status}`);
          if (response.status !== 200)
            throw new DvoError('distribution', `${url} answered ${response.status}`);
          const text = await readText(response, LARGEST_ANSWER_BYTES);
          if (text === undefined)
            throw new DvoError('distribution', `${url} is too large to be what it should be`);
          return text.trim();
        },
      ).catch((error: unknown) => {
        if (error instanceof DvoError) throw error;
        throw new DvoError('unreachable', `${url} cannot be read: ${describeError(error)}`, {
          cause: error,
        });
      }),
    );
  }
}

function checkedSha(text: string): string {
  if (SHA.test(text)) return text;
  throw new DvoError('distribution', `not a build of devin-remote: ${JSON.stringify(text.slice(0, 100))}`);
}
