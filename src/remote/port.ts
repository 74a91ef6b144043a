/** The remote port: what dvo does with devin-remote inside a sandbox. Implemented over provider.exec by scripts. */
import type { Secret } from '../lib/secret.ts';
import type { Call } from '../lib/deadline.ts';
import type { SandboxPaths } from '../sandboxes/provider.ts';

/** Where to act. */
export interface Target {
  readonly sandboxId: string;
  readonly paths: SandboxPaths;
}

/** One published build of devin-remote: resolved once, so that a moving `latest` cannot mix two builds. */
export interface RemoteBinary {
  readonly sha: string;
  readonly url: string;
  /** SHA-256 of the file, 64 lower-case hex digits, read by the daemon itself. */
  readonly sha256: string;
}

/** Whose sandbox this is: `.dvo/session.json` in the volume, for a daemon that has lost its index. */
export interface Marker {
  readonly version: 1;
  readonly sessionId: string;
  readonly outpostId: string;
  readonly acceptorId: string;
  readonly name: string;
  /** The sandbox it was put into: an archive carries the marker on into others, where nothing was done yet. */
  readonly sandboxId: string;
}

export interface PrepareRequest {
  readonly binary: RemoteBinary;
  readonly marker: Marker;
  /** The acceptor that the sandbox is taken over from; undefined: it is nobody's or already ours. */
  readonly replaces?: string;
}

/**
 * condemned: its marker is written, but another daemon had begun to destroy the sandbox, and may yet do it ·
 * foreign: another daemon than the one to be replaced has marked it since; nothing was touched.
 */
export type PrepareReport = Prepared | { readonly kind: 'condemned' } | { readonly kind: 'foreign' };

export interface Prepared {
  readonly kind: 'prepared';
  /** False when a verified copy was already in the volume. */
  readonly downloaded: boolean;
  /** What was installed or cloned, in words, for the log. */
  readonly notes: readonly string[];
}

export interface LaunchRequest {
  readonly launchId: string;
  readonly sessionId: string;
  readonly sha: string;
  readonly connectToken: Secret;
  readonly gatewayUrl: string;
}

/** The remote that now runs: this launch's, or, when one already held the lock, that one (`adopted`). */
export interface LaunchReport {
  readonly launchId: string;
  readonly pid: number;
  readonly adopted: boolean;
}

export type RemoteProbe =
  | { readonly kind: 'running'; readonly launchId: string; readonly pid: number }
  | { readonly kind: 'exited'; readonly launchId: string; readonly exitCode: number }
  /** No live remote and no exit code: killed with its container, or never launched in this container. */
  | { readonly kind: 'gone' };

/**
 * Every method throws ProviderError, `deadline` or `aborted` from the exec below it, and DvoError `remote` when a
 * script did not end in its nonce marker or said something else than its protocol. Such a failure means "unknown".
 */
export interface RemoteControl {
  /** @throws DvoError `distribution`; `unreachable` when the host that publishes it gives no answer */
  resolve(pinnedSha: string | undefined, call: Call): Promise<RemoteBinary>;
  /** Undefined: there is none. @throws DvoError `remote` only when it is damaged, which is not the same */
  readMarker(target: Target, call: Call): Promise<Marker | undefined>;
  /**
   * Marker (by compare-and-set: in place of nobody's, ours or `replaces`), directories, tools, repositories, verified
   * binary. Safe to repeat, also when a repetition arrives late; quick when all is there.
   */
  prepare(target: Target, request: PrepareRequest, call: Call): Promise<PrepareReport>;
  /**
   * Before a destroy: says in the volume that the sandbox is about to go, then reads the marker. A daemon that takes the
   * sandbox over writes its marker first and looks for this afterwards, so that one of the two gives way. Errors as
   * `readMarker`.
   */
  condemn(target: Target, call: Call): Promise<Marker | undefined>;
  /** Takes `condemn` back. */
  spare(target: Target, call: Call): Promise<void>;
  /** Starts the remote detached, unless one is running in this volume already. */
  launch(target: Target, request: LaunchRequest, call: Call): Promise<LaunchReport>;
  probe(target: Target, call: Call): Promise<RemoteProbe>;
  /**
   * Ends the remote of `launchId` (any launch when undefined): TERM, a grace, KILL of its whole process tree.
   * Succeeds when none runs. A remote of another launch is left alone.
   */
  stop(target: Target, launchId: string | undefined, call: Call): Promise<void>;
}
