/** The numbers that the rules go by. Defaults are for a live outpost; tests and the simulation hand in their own. */

export interface Rules {
  /** Consecutive reads that must agree before "suspended", "over" or "absent" is believed (contract, section 4). */
  readonly suspendLooks: number;
  /** Consecutive reads that must agree before a claim by another acceptor is believed. */
  readonly yieldLooks: number;
  /** Reads after the remote's clean exit before its session is ended although the queue still says running. */
  readonly exitLooks: number;
  readonly confirmEveryMs: number;
  readonly probeEveryMs: number;
  /** Between looks at a sandbox that is starting. */
  readonly bootPollMs: number;
  /** A sandbox that has not come up by then is destroyed and asked for again. */
  readonly bootTimeoutMs: number;
  /** Failures of one step in a row before the session is given up. */
  readonly stepRetryLimit: number;
  /** Relaunches of the remote without a healthy stretch between them before the session is given up. */
  readonly restartLimit: number;
  readonly relaunchFirstMs: number;
  readonly relaunchMaxMs: number;
  /** The remote counts as healthy, and old failures are forgotten, when it has run this long. */
  readonly healthyAfterMs: number;
  /** Age of the newest archive at which a serving session is archived again; 0: never. */
  readonly checkpointEveryMs: number;
  /** A roll-over starts this long before the sandbox's own end. */
  readonly lifetimeMarginMs: number;
  /** How long after losing a session to another daemon we wait for it to adopt the sandbox. */
  readonly yieldGraceMs: number;
  /** A session that was given up and cannot be archived for this long keeps its sandbox, and gives its claim back. */
  readonly archivePatienceMs: number;
  readonly suspendMode: 'snapshot' | 'keep' | 'discard';
  /** How long a suspended session's archive is kept. */
  readonly retentionMs: number;
}

export const DEFAULT_RULES: Rules = {
  suspendLooks: 3,
  yieldLooks: 2,
  exitLooks: 5,
  // Looks count a second apart.
  confirmEveryMs: 1_200,
  probeEveryMs: 15_000,
  bootPollMs: 500,
  // Devin gives up on a session that finds no machine within about five minutes; two tries must fit.
  bootTimeoutMs: 120_000,
  stepRetryLimit: 4,
  restartLimit: 5,
  relaunchFirstMs: 1_000,
  relaunchMaxMs: 60_000,
  healthyAfterMs: 60_000,
  checkpointEveryMs: 30 * 60_000,
  lifetimeMarginMs: 900_000,
  yieldGraceMs: 30_000,
  archivePatienceMs: 30 * 60_000,
  suspendMode: 'snapshot',
  retentionMs: 14 * 24 * 3_600_000,
};
