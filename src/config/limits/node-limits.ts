/** Limits and deadlines of what the nodes of one installation do together. `product-limits.ts` includes them. */

export const nodeLimits = {
  /** What nodes share about the health of upstream accounts: see nodes/health-sharing.ts. */
  healthSharing: {
    pollMs: 500,
    delayMs: 20,
    probeDelayMs: 1_000,
  },
  /** Counts of throttles that nodes share: see nodes/throttle-sharing.ts. */
  throttleSharing: {
    pollMs: 500,
    delayMs: 250,
    subjectsMax: 500,
    knownMax: 50_000,
    /** Invalid keys from one address before the other nodes are informed. */
    badKeysMin: 3,
  },
  /** The division of limits over nodes: see limits/sharing/limit-sharing.ts. */
  limitSharing: {
    tickMs: 200,
    askTickMs: 250,
    beatMs: 1_000,
    commandMs: 50,
    startCommandMs: 500,
    faultsMax: 3,
    retryMinMs: 1_000,
    retryMaxMs: 3_000,
    joinMs: 8_000,
    waitMs: 700,
    lostAfterMs: 5_000,
    /** A minute after the node is lost, and some seconds for clocks and delays. */
    removedAfterMs: 70_000,
    /** A minute, and a second for the rounding of clocks. */
    leftAfterMs: 61_000,
    /** Room for 100,000 deviations of 120 characters, far more than the limits of an installation need. */
    documentCharsMax: 16 * 1_048_576,
  },
  /** What each node publishes about its use of long windows: see nodes/own-use.ts. */
  ownUse: {
    publishIntervalMs: 600_000,
    keptMs: 2 * 3_600_000,
  },
  /** Several processes on one port: see cli/processes/supervisor.ts. */
  processes: {
    max: 64,
    /** How long a process that stopped listening serves connections that have not sent a request yet. */
    silentMs: 1_000,
    /** A process reports to its supervisor this often, and is killed after `missedMax` intervals without a report. */
    reportMs: 5_000,
    missedMax: 6,
    /** A process that ended is started again after `restartMinMs`, twice as long each time, `restartMaxMs` at most. */
    restartMinMs: 250,
    restartMaxMs: 30_000,
    /** A process that was ready for this long is started again without delay. */
    stableMs: 60_000,
    /** A process that ends so often before it is ready ends all. */
    failedStartsMax: 5,
    /** How long another process of the machine may take to report its state. */
    askTimeoutMs: 2_000,
    /** Lines of the access log that are written together. Larger writes to a pipe would mix with those of others. */
    accessBatchCharsMax: 2_048,
  },
  /** How often a node checks whether the migrations that wait for nodes of an earlier version can be applied. */
  finishMigrationsMs: 60_000,
} as const;
