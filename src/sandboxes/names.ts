/**
 * Names and tags. A change here strands live sessions: their sandboxes are found again by these very strings,
 * so the tests hold golden values.
 */
import { createHash } from 'node:crypto';

/** `dvo-{outpost8}-{fragment}-{hash16}`, at most 59 characters (CoreWeave's limit for a tag). */
export type SandboxName = string;

const FRAGMENT_LENGTH = 29;

export function sandboxName(outpostId: string, sessionId: string): SandboxName {
  const fragment = sessionId
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, FRAGMENT_LENGTH)
    .replace(/-+$/, '');
  const parts = ['dvo', hash(outpostId, 8), fragment, hash(sessionId, 16)];
  return parts.filter((part) => part !== '').join('-');
}

/** On every sandbox of one outpost, whichever daemon made it. */
export function outpostTag(outpostId: string): string {
  return `dvo-outpost-${hash(outpostId, 8)}`;
}

/** On every sandbox that one daemon made. The marker in the volume outranks it: a sandbox can be taken over. */
export function acceptorTag(acceptorId: string): string {
  return `dvo-acceptor-${hash(acceptorId, 16)}`;
}

function hash(text: string, length: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, length);
}
