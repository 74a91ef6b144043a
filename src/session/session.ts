/**
 * The vocabulary of the rules: what a queue entry, our record of a session, and the facts about its machine look
 * like. Types only, so that every room can speak it.
 */

/** Coarse status of a session as Devin reports it, drift folded in. `over`: exit, error. */
export type SessionStatus = 'pending' | 'running' | 'suspended' | 'terminated' | 'over' | 'unknown';

export interface NetworkPolicy {
  readonly enabled: boolean;
  readonly allow: readonly NetworkRule[];
}

/** `value` as Devin gave it: a host name or glob, an IPv4 or IPv6 address or CIDR, or something newer. */
export interface NetworkRule {
  readonly kind: 'hostname' | 'ipv4' | 'ipv6' | 'unknown';
  readonly value: string;
}

/** One row of the queue, as last read. Times are milliseconds since the epoch. */
export interface QueueEntry {
  readonly sessionId: string;
  readonly createdAt?: number;
  readonly updatedAt?: number;
  readonly kind: 'new' | 'resume' | 'unknown';
  /** Lower case; `linux` when absent. */
  readonly platform: string;
  readonly remoteSha?: string;
  readonly networkPolicy?: NetworkPolicy;
  readonly phase: 'pending' | 'claimed' | 'unknown';
  readonly acceptorId?: string;
  readonly claimDeadline?: number;
  readonly status: SessionStatus;
}

/** What the queue, as last read, says of one session. The gist decides; the entry is detail. */
export interface Sighting {
  readonly gist: Gist;
  /** How many reads in a row had this gist. Events of the watch start a count; only reads of our own raise it. */
  readonly looks: number;
  /** When the entry was last read by asking for it; events do not count. Milliseconds since the epoch. */
  readonly readAt?: number;
  /** The entry as last seen; undefined when it is absent (`gist: absent`) or was never seen. */
  readonly entry?: QueueEntry;
}

/**
 * available: pending and alive · held: claimed by us and alive · elsewhere: claimed by another acceptor and alive ·
 * over: suspended, exited or in error, whoever holds it · terminated · absent: a complete list, a read or a DELETED
 * event says that there is no entry · unseen: nothing known yet (no complete list has been read) · unclear: an entry
 * whose phase we do not know.
 */
export type Gist =
  | 'available'
  | 'held'
  | 'elsewhere'
  | 'over'
  | 'terminated'
  | 'absent'
  | 'unseen'
  | 'unclear';

export const STAGES = [
  'claimed',
  'provisioning',
  'preparing',
  'serving',
  'suspending',
  'suspended',
  'terminating',
] as const;
export type Stage = (typeof STAGES)[number];

/** Why a session's machine is being taken down in stage `suspending`, which decides what follows the archive. */
export type Ending =
  | 'suspend' // the session sleeps: release, keep the archive
  | 'give-up' // it keeps failing: release, keep the archive, cool down
  | 'roll-over' // the sandbox's hard lifetime is near: keep the claim, go on in a new sandbox
  | 'yield' // another daemon holds the session: leave it the archive, forget
  | 'drain' // this daemon is being shut down for good: release, keep the archive
  | 'release' // handed over by hand: archived whatever SUSPEND_MODE says, so that any daemon can go on with it
  | 'expire'; // stage terminating: nothing of it is kept here any more, by SUSPEND_MODE or after its time

/** What a person wants of one session, beside what the queue wants. */
export const ORDERS = ['suspend', 'release', 'terminate'] as const;
export type Order = (typeof ORDERS)[number];

/** An archive that has been seen READY. */
export interface Archive {
  readonly snapshotId: string;
  /** When its content was current: milliseconds since the epoch, our clock, just before it was asked for. */
  readonly takenAt: number;
  readonly sandboxId: string;
  /** Nobody worked in its sandbox afterwards, so any other archive of that sandbox holds no more than this one. */
  readonly last?: true;
}

/** The archive that is being made, written before it is asked for. */
export interface ArchiveIntent {
  readonly sandboxId: string;
  readonly askedAt: number;
  /** Archives of this sandbox that existed before: any other one is the one asked for. */
  readonly before: readonly string[];
  readonly failures: number;
  /** Milliseconds since the epoch; not asked again before this. */
  readonly retryAt?: number;
  /** The platform has no archives for this account, until `retryAt` at least: the sandbox is kept instead. */
  readonly unsupported?: boolean;
}

export interface RemoteRun {
  readonly launchId: string;
  /** Absent for a remote that was found running by a daemon without an index. */
  readonly sha?: string;
  readonly launchedAt: number;
  /** The remote's process id in its sandbox; absent until the launch has answered. */
  readonly pid?: number;
}

/** Our durable memory of one session. Never holds a secret. Times are milliseconds since the epoch. */
export interface SessionRecord {
  readonly sessionId: string;
  readonly stage: Stage;
  readonly stageSince: number;
  /** Raised by each new claim attempt; a write by an older attempt is refused. */
  readonly attempt: number;
  readonly claimKind: QueueEntry['kind'];
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Failures of the current stage's step in a row; back to 0 when the stage changes. */
  readonly failures: number;
  /** Launches since the remote last ran healthily; counted before each launch. */
  readonly launches: number;
  /** A create has been asked for and not been answered; when. */
  readonly createAskedAt?: number;
  /** The tag that only the sandbox of that create carries. */
  readonly createTag?: string;
  readonly sandboxId?: string;
  /** The only hosts that the sandbox may reach; absent: as the platform does by itself. */
  readonly egress?: readonly string[];
  /** When the platform will end the sandbox by itself. */
  readonly lifetimeEndsAt?: number;
  /** True while the sandbox's volume holds nothing that `archive` (or an empty volume) does not. */
  readonly fresh?: boolean;
  /** The next sandbox starts empty although there is an archive: restoring it has failed too often. */
  readonly startEmpty?: boolean;
  /** The binary that `prepare` has put into the current sandbox; gone when the stage goes back. */
  readonly preparedSha?: string;
  readonly remote?: RemoteRun;
  /** The first launch in the current sandbox: from then on it may hold work that no archive does. */
  readonly servedSince?: number;
  readonly ending?: Ending;
  /** In stage suspending: when the remote was known to be stopped. An archive taken before is not the last one. */
  readonly remoteStoppedAt?: number;
  /** In stage suspending for `yield`: the marker still named us after the grace. */
  readonly ownerConfirmed?: boolean;
  /** The acceptor whose mark the sandbox bore when it was adopted, until ours is in its place. */
  readonly takenFrom?: string;
  /** A destroy of the sandbox has been asked for and not been answered. */
  readonly destroyAsked?: true;
  readonly archive?: Archive;
  readonly archiving?: ArchiveIntent;
  /** Archives that nothing needs any more, to be deleted. */
  readonly obsolete?: readonly string[];
  /** Archives that could not be restored: what came after them does not hold what they do. Kept to the session's end. */
  readonly setAside?: readonly string[];
  /** How often in a row `archive` could not be restored. */
  readonly refusals?: number;
  /** `keep`: the suspended session's sandbox was left in place, its remote stopped. */
  readonly kept?: boolean;
  readonly lastError?: SessionFault;
  /** Given by hand and not carried out yet. */
  readonly order?: Order;
  /** When the order was given: what another daemon has made since is none of its business. */
  readonly orderedAt?: number;
}

export interface SessionFault {
  readonly at: number;
  /** The step that failed, or `remote`: devin-remote ended although its session goes on. */
  readonly step: string;
  readonly message: string;
}

/** One moment in a session's life, for people. Times are milliseconds since the epoch. */
export interface SessionEvent {
  readonly at: number;
  /** A constant message. */
  readonly what: string;
  readonly detail?: string;
  /** The stage that was entered. */
  readonly stage?: Stage;
  /** The same happened so many times in a row, last at `lastAt`. */
  readonly times?: number;
  readonly lastAt?: number;
}

/** What happened to one session, oldest first. Kept for a while after its record is gone. */
export interface SessionHistory {
  readonly sessionId: string;
  readonly events: readonly SessionEvent[];
  /** When its record went. */
  readonly endedAt?: number;
}

/**
 * What we remember of a session that keeps failing, also while there is no record of it. Written before each claim,
 * so that a session which kills the daemon is counted too; dropped when its remote has run healthily.
 */
export interface FailureHistory {
  readonly sessionId: string;
  readonly attempts: number;
  /** Not claimed before this; milliseconds since the epoch. */
  readonly coolUntil: number;
  readonly reason: string;
  /** Nothing failed: a person has ended it here, and it is left alone for as long. */
  readonly byHand?: true;
}

/**
 * unknown: not looked at, or the look failed · none: the platform knows no sandbox for the record ·
 * starting · running · ended: it is over or on its way out, its volume lost.
 */
export const SANDBOX_FACTS = ['unknown', 'none', 'starting', 'running', 'ended'] as const;
export type SandboxFact = (typeof SANDBOX_FACTS)[number];

/**
 * unknown: not looked at, or the probe failed; never to be read as exited · running · exited: it ended with exit
 * code 0 · failed: it ended otherwise, or is gone without a trace, or this container never ran it.
 */
export const REMOTE_FACTS = ['unknown', 'running', 'exited', 'failed'] as const;
export type RemoteFact = (typeof REMOTE_FACTS)[number];

/**
 * What the last looks at the machine and the queue showed. Memory of this process only: a restart looks again.
 * Times are milliseconds since the epoch.
 */
export interface Facts {
  readonly sandbox: SandboxFact;
  readonly remote: RemoteFact;
  /** When the machine was last looked at, successfully or not. */
  readonly probedAt?: number;
  /** Looks in a row that failed, so that a platform in trouble is not asked by every session twice a second. */
  readonly unanswered?: number;
  /** Since when every probe has found the remote running. */
  readonly healthySince?: number;
  /** When the session's entry was last read on purpose, to confirm what it seemed to say. */
  readonly confirmedAt?: number;
  /** Such reads since the remote was first seen to have exited. */
  readonly looksSinceExit: number;
}

export const NO_FACTS: Facts = { sandbox: 'unknown', remote: 'unknown', looksSinceExit: 0 };
