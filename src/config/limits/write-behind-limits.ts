/** Limits and deadlines of write-behind billing. `product-limits.ts` includes them. */

export const writeBehindLimits = {
  /** Write-behind billing: see billing/write-behind/write-behind-billing.ts. */
  writeBehind: {
    /** Holds within a tenth of a second above which write-behind billing is worth its overhead. */
    busyHolds: 40,
    /** Delay before finished requests are settled in the database: after a small batch, and after a large one. */
    smallBatchDelayMs: 50,
    largeBatchDelayMs: 1_000,
    largeBatchMin: 10,
    /** At this many requests a settlement transaction starts at once, and stops if other work waits. */
    bookAtOnceMin: 5_000,
    bookBeforeYieldMin: 100,
    /** Rows of one batch: they share a ledger entry and are settled together, unless one is rejected. */
    batchRows: 128,
    /** Requests of one step of that transaction, which takes about half a millisecond. */
    bookStepRows: 64,
    /** Settled requests after which the WAL of SQLite is checkpointed. It is about 10 MB by then. */
    checkpointAfterRows: 8_000,
    moveHoldAfterMs: 5_000,
    idleMs: 12_000,
    checkIntervalMs: 800,
    /**
     * How long a hold waits for other nodes to release reserved money: for nodes whose heartbeats arrive, and for others.
     * How often it looks. `silentAfterMs` is above `recovery.heartbeatIntervalMs` and `recovery.recoveryIntervalMs`
     * together: processes of one machine have released the money of a killed one before holds of others give up.
     */
    recallTimeoutMs: 10_000,
    silentRecallTimeoutMs: 1_500,
    silentAfterMs: 8_000,
    recallCheckMs: 15,
    /** Reservations are not used while the last heartbeat is older. Must be well below `recovery.silentAfterMs`. */
    heartbeatAgeMaxMs: 6_000,
    /** On PostgreSQL a transaction for each request costs more, and rows should reach other nodes soon. */
    sharedServer: { busyHolds: 4, bookAtOnceMin: 1_000, largeBatchDelayMs: 250 },
    /** Size of a journal segment. Creating one takes less than half a millisecond, during which all requests wait. */
    segmentBytes: 512 * 1024,
  },
} as const;
