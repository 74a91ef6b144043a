/** Devin's side of a set-up: token and scope, outpost and platform, clock, and the published devin-remote. */
import { createHash } from 'node:crypto';
import type { Config } from '../../config/config.ts';
import type { Clock, Random } from '../../lib/clock.ts';
import { withDeadline, type Call } from '../../lib/deadline.ts';
import { describeError, DvoError } from '../../lib/errors.ts';
import type { Fetch } from '../../lib/fetch.ts';
import type { Redactor } from '../../lib/secret.ts';
import { Inquiry, type Reply } from '../../outposts/inquiry.ts';
import { Distribution } from '../../remote/distribution.ts';
import { fail, pass, skip, type Check, type Finding } from './check.ts';

export interface DevinParts {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly fetch: Fetch;
  readonly redactor: Redactor;
}

const ASK_MS = 20_000;
const DOWNLOAD_MS = 300_000;
/** A third of the shortest sensible renewal margin: claims are renewed by comparing Devin's deadlines with our clock. */
const MOST_SKEW_MS = 20_000;

export function devinChecks(parts: DevinParts): readonly Check[] {
  const { config, clock, fetch, redactor } = parts;
  const { devin, remote } = config;
  const inquiry = new Inquiry({
    baseUrl: devin.apiUrl,
    token: () => devin.token.read(),
    clock,
    fetch,
    redactor,
  });
  let reply: Reply | undefined;
  return [
    {
      id: 'token',
      title: 'Devin accepts the token',
      async run(signal) {
        try {
          reply = await inquiry.queue(devin.outpostId, { timeoutMs: ASK_MS, signal });
        } catch (error) {
          if (signal.aborted) throw error;
          return fail(
            `${devin.apiUrl} gives no answer: ${describeError(error)}`,
            'check DEVIN_API_URL, and that this machine reaches it (DNS, firewall, proxy)',
          );
        }
        return judgeQueue(reply, config);
      },
    },
    {
      id: 'outpost',
      title: 'the outpost exists and is for linux',
      needs: ['token'],
      run: async (signal) =>
        judgeOutpost(await inquiry.outposts({ timeoutMs: ASK_MS, signal }), devin.outpostId),
    },
    {
      id: 'clock',
      title: 'this machine’s clock is right',
      run: async () => judgeClock(reply?.skewMs),
    },
    {
      id: 'binary',
      title: 'devin-remote can be had and verified',
      async run(signal) {
        try {
          return await verifyRemote(parts, { timeoutMs: DOWNLOAD_MS, signal });
        } catch (error) {
          if (signal.aborted || !(error instanceof DvoError)) throw error;
          const proxy = remote.staticBaseUrl.startsWith('https://static.devin.ai')
            ? 'check that this machine reaches it (DNS, firewall, proxy)'
            : 'check DEVIN_WORKER_STATIC_BASE_URL and what is published there';
          return fail(
            describeError(error),
            remote.sha === undefined ? proxy : `${proxy}, and DEVIN_WORKER_REMOTE_SHA`,
          );
        }
      },
    },
  ];
}

function judgeQueue({ status, body }: Reply, { devin }: Config): Finding {
  const { apiUrl, outpostId } = devin;
  if (status === 401) {
    return fail(
      'Devin does not accept DEVIN_OUTPOSTS_TOKEN (401)',
      'make a new key with dvo connect, or copy the service user’s key anew, whole',
    );
  }
  if (status === 403) {
    return fail(
      'the token may not read this outpost’s queue (403)',
      'give its service user the scope account.outposts.machine, and check that OUTPOST_ID belongs to the same account',
    );
  }
  if (status === 404) {
    return fail(
      `there is no queue for OUTPOST_ID ${outpostId} at ${apiUrl} (404)`,
      'check OUTPOST_ID and DEVIN_API_URL; dvo connect writes both',
    );
  }
  if (status !== 200 || typeof body !== 'object') {
    return fail(
      `${apiUrl} answers ${status}${status === 200 ? ' without JSON' : ''}`,
      status >= 500 || status === 429
        ? 'wait a moment and try again; if it stays, ask Devin’s status page'
        : 'check DEVIN_API_URL: something else than Devin’s API answers there',
    );
  }
  return pass('the queue can be read');
}

function judgeOutpost(found: Awaited<ReturnType<Inquiry['outposts']>>, outpostId: string): Finding {
  if ('refused' in found) {
    return found.refused === 401 || found.refused === 403 || found.refused === 404
      ? skip(`the token may not list outposts (${found.refused}), which is no fault: it needs a wider scope`)
      : fail(`the list of outposts is answered with ${found.refused}`, 'wait a moment and try again');
  }
  const outpost = found.find(({ id }) => id === outpostId);
  if (outpost === undefined) {
    const known = found.slice(0, 5).map(({ id, name }) => (name === '' ? id : `${id} (${name})`));
    return fail(
      `OUTPOST_ID ${outpostId} is not among this account’s outposts`,
      known.length === 0
        ? 'make an outpost with dvo connect'
        : `set OUTPOST_ID to one of: ${known.join(', ')}`,
    );
  }
  const { platform = 'linux', name } = outpost;
  return platform === 'linux'
    ? pass(name === '' ? outpostId : `${outpostId} (${name})`)
    : fail(
        `the outpost is for ${platform}, and dvo serves linux`,
        'make an outpost for linux (dvo connect --platform linux), and use its OUTPOST_ID',
      );
}

function judgeClock(skewMs: number | undefined): Finding {
  if (skewMs === undefined) return skip('Devin’s answer told no time');
  const seconds = Math.round(skewMs / 1_000);
  return Math.abs(skewMs) <= MOST_SKEW_MS
    ? pass(`within ${Math.abs(seconds)} s of Devin’s`)
    : fail(
        `this machine is ${Math.abs(seconds)} s ${seconds > 0 ? 'behind' : 'ahead of'} Devin’s clock; claims would be renewed at the wrong time`,
        'switch on time synchronization (timedatectl set-ntp true, or chrony)',
      );
}

/** Downloads the very bytes that a sandbox would. @throws DvoError `distribution`, `deadline` */
async function verifyRemote({ config, clock, random, fetch }: DevinParts, call: Call): Promise<Finding> {
  const { staticBaseUrl, sha } = config.remote;
  const distribution = new Distribution({ fetch, clock, random, baseUrl: staticBaseUrl, sha });
  return await withDeadline(clock, 'download devin-remote', call, async (signal) => {
    const binary = await distribution.resolve(undefined, { timeoutMs: ASK_MS, signal });
    const init = { method: 'GET', headers: {}, signal, redirect: 'follow' } as const;
    const response = await fetch(binary.url, init);
    if (response.status !== 200)
      throw new DvoError('distribution', `${binary.url} answered ${response.status}`);
    const hash = createHash('sha256');
    let size = 0;
    for await (const chunk of response.body ?? []) {
      hash.update(chunk);
      size += chunk.byteLength;
    }
    if (hash.digest('hex') !== binary.sha256) {
      throw new DvoError(
        'distribution',
        `${binary.url} does not match its published checksum (${size} bytes); dvo would never run it`,
      );
    }
    return pass(`build ${binary.sha}, ${(size / 1e6).toFixed(1)} MB, checksum matches`);
  });
}
