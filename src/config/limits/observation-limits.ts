/**
 * The limits of what the gateway reports: alerts, exported usage, the access log, exported traces and captured requests.
 * `product-limits.ts` includes them.
 */

const MiB = 2 ** 20;

export const observationLimits = {
  alerts: {
    /** How often alert conditions are checked. */
    checkIntervalMs: 2_000,
    /** From connecting to the last byte of the response. */
    deliveryTimeoutMs: 10_000,
    /** Delays after each failed attempt. Then the delivery fails for good. */
    retriesMs: [2_000, 10_000, 60_000, 300_000, 900_000, 3_600_000],
    /** Retention of closed alerts and their delivery results. */
    keptMs: 90 * 86_400_000,
    /**
     * How long a billing alert stays open after the latest fault. Longer than the interval of the reconciliation, so that
     * a contradiction that stays is one alert.
     */
    billingFaultMs: 4_500_000,
    /** The silence after which a node, or the database as a node sees it, is alerted. */
    nodeSilentMs: 30_000,
    databaseAwayMs: 30_000,
    /** How long an alert stays open after a failover of the database. */
    failoverMs: 3_600_000,
    /** A provider has lost more people than this within the time; reported until they return, at most for a day. */
    directoryLoss: { people: 10, percent: 20, overMs: 600_000, reportedMs: 86_400_000 },
  },
  /** The export of usage by webhook and by pull. */
  usageExport: {
    /** How often each node checks the feed. */
    intervalMs: 1_000,
    /** From connecting to the response headers. */
    deliveryTimeoutMs: 10_000,
    batchRowsMax: 1_000,
    /** Delays after each failed attempt. The last one repeats: a batch is never dropped. */
    retriesMs: [1_000, 2_000, 5_000, 15_000, 60_000, 300_000] as readonly number[],
    /** How long entries stay in the feed. Entries that an enabled webhook has not received stay longer. */
    keptMs: 30 * 86_400_000,
    /** How long a pull waits for transactions that are about to commit. */
    settleMs: 500,
  },
  /** The watch on the event loop. A turn over `turnMs` is logged; so many of them in the span open an alert. */
  loopWatch: { turnMs: 50, tickMs: 10, alertSpanMs: 600_000, alertTurns: 3 },
  /** The access log on standard output. */
  accessLog: {
    /** How long a line may wait to be written with others. */
    delayMs: 100,
    batchCharsMax: 65_536,
    /** What may wait for a reader that does not keep up. More lines are dropped. */
    pendingCharsMax: 4 * MiB,
  },
  /** The export of traces. */
  telemetry: {
    timeoutMs: 10_000,
    /** Requests that take at least this long are always exported. */
    slowMs: 60_000,
    /** One message to the collector. */
    batchSpansMax: 512,
    batchBytesMax: 1 * MiB,
    /** The messages that wait. If the collector is down, the oldest is dropped. */
    batchesMax: 4,
    /** How long a span waits for others. */
    intervalMs: 5_000,
    /** The pauses after which a batch is sent again. Then it is dropped. */
    retriesMs: [1_000, 2_000, 4_000, 8_000, 16_000] as readonly number[],
    /** A collector may request a longer pause, up to this. */
    retryAfterMsMax: 60_000,
    /** How long the process waits for the last export when it stops. */
    flushMs: 5_000,
  },
  /** Captured requests. */
  capture: {
    /** The defaults and bounds of the `capture` section of the file. */
    keptMs: 7 * 86_400_000,
    keptMsMin: 60_000,
    keptMsMax: 365 * 86_400_000,
    budgetMib: 256,
    /** Above the size of the largest capture, so that each one fits. */
    budgetMibMin: 16,
    budgetMibMax: 1_048_576,
    bodyKib: 256,
    bodyKibMin: 4,
    bodyKibMax: 1_024,
    /** Memory of this process for captures in flight and for those that wait to be stored. */
    memoryBytesMax: 64 * MiB,
    queueMax: 256,
    /** How long the console waits for captures that are about to be stored, and the process when it stops. */
    flushMs: 5_000,
    /** How often captures are deleted after their retention, and how many in one transaction. */
    sweepMs: 60_000,
    sweepRows: 200,
    /** How many of the next requests of a key can be ordered, and for how long. */
    orderMax: 1_000,
    orderMsMax: 86_400_000,
  },
} as const;
