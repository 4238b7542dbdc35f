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
  /** What a node borrows of limits: see limits/borrower/coordinator-link.ts. */
  limitBorrower: {
    nodeTermMs: 9_000,
    exchangeMs: 200,
    beatMs: 1_000,
    callMinMs: 50,
    callMaxMs: 2_000,
    faultsMax: 3,
    lostAfterMs: 1_000,
    retryMs: 500,
    lossCheckMs: 3_000,
    keepMs: 1_000,
    contendedMs: 1_000,
    recallMs: 500,
    slotAskMs: 1_000,
    exhaustedMs: 200,
    closedMs: 5_000,
    closedReportMs: 5_000,
    undeclaredMaxMs: 75_000,
    recordsPerCallMax: 400,
    refundsPerCallMax: 4_000,
    windowsPerCallMax: 25,
    holdingsPerBatchMax: 450,
    burialMs: 10_000,
    sweepMs: 60_000,
    unknownUseMs: 70_000,
  },
  /** The coordinator of limits: see limits/coordinator/coordinator-limits.ts. */
  limitCoordinator: {
    termMs: 10_000,
    unknownUseMs: 70_000,
    endedTermMs: 600_000,
    windowsPerSweepMax: 100,
    slotWaitMs: 2_000,
    recallWaitMs: 500,
    waitingMax: 1_000,
    usedRecordMs: 3_600_000,
    heldRecordMs: 7 * 86_400_000,
    recordsMax: 500,
    itemsMax: 1_500,
    refundsMax: 5_000,
    asksMax: 500,
    /** Those of a key, its user, its group and the key in the group: three rates, and three units of four windows. */
    wantsMax: 60,
    holdingsMax: 500,
    usesMax: 120,
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
