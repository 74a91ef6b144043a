/** What a person can do about it, in one line: for each reason to wait and each step that can fail. */
import type { Refusal } from '../session/admission.ts';
import type { StepName } from '../session/decision.ts';
import type { Pause } from './admission-gate.ts';

export const REFUSED: Readonly<Record<Refusal, { readonly why: string; readonly hint?: string }>> = {
  platform: {
    why: 'it asks for another platform than linux',
    hint: 'another outpost has to serve it',
  },
  'network-policy': {
    why: 'its network policy cannot be enforced with this provider as configured',
    hint: 'use a provider that enforces egress rules; NETWORK_POLICY=ignore serves it without enforcing',
  },
  status: { why: 'its status is not one that can be served' },
  phase: { why: 'its place in the queue is not one that is known' },
  'cooling-down': {
    why: 'it has failed before and is cooling down',
    hint: 'it is tried again by itself; its last error and the log say what failed',
  },
  'by-hand': {
    why: 'it was ended here by hand and is left alone',
    hint: 'another daemon may take it; if Devin still wants it then, it is served here again',
  },
};

export const PAUSED: Readonly<Partial<Record<Pause, string>>> = {
  'devin-credentials': 'replace DEVIN_OUTPOSTS_TOKEN; with DEVIN_OUTPOSTS_TOKEN_FILE no restart is needed',
  'platform-credentials': 'replace the platform’s key; it is tried again every 15 s',
  'platform-request':
    'compare image, size, secrets and runners of the sandboxes with what the platform accepts, and whether the key may create; one session tries again after 5 minutes',
  state: 'free the disk of STATE_DIR, or make it writable; it recovers by itself',
};

const FAILED: Readonly<Partial<Record<StepName | 'remote', string>>> = {
  claim: 'Devin did not take the claim: see whether its API is up and the token is valid',
  'ensure-sandbox': 'the platform gave no sandbox: see its capacity and the account’s quota',
  prepare:
    'the sandbox could not be made ready: does its image have git, curl and tar, and does it reach the network?',
  launch: 'the remote did not start: its log is in the sandbox (dvo logs)',
  remote:
    'dvo logs shows its last words; it is launched again with growing waits, until REMOTE_RESTART_LIMIT',
  probe: 'the sandbox did not answer: see whether the platform is up',
  'stop-remote':
    'no command reaches the sandbox, so its remote may be at work: tried again; archived all the same after half an hour, or before its lifetime ends',
  checkpoint: 'the workspace could not be archived while it is served; tried again with growing waits',
  archive:
    'the workspace could not be archived: the sandbox and its work are kept, tried again with growing waits',
  destroy: 'the platform did not destroy the sandbox: tried again; see whether the platform is up',
  terminate: 'not everything could be deleted yet: tried again until nothing is left',
};

/** Undefined: nothing better than the message itself. */
export function adviceFor(step: string): string | undefined {
  return Object.entries(FAILED).find(([name]) => name === step)?.[1];
}

export function hinted(hint: string | undefined): { readonly hint?: string } {
  return hint === undefined ? {} : { hint };
}
