/** How write-behind billing books finished requests. */

export interface ReservationLimits {
  /** How long finished requests wait to be booked: `smallBatchDelayMs` after a small round, `largeBatchDelayMs` after a large one. */
  smallBatchDelayMs: number;
  largeBatchDelayMs: number;
  /** Number of rows from which a round counts as large. */
  largeBatchMin: number;
  /**
   * Maximum number of requests in one transaction; when this number waits, it starts at once. Few commits write each
   * page of the database less often.
   */
  bookAtOnceMin: number;
  /** Number of requests after which a transaction ends early if other work waits for it. */
  bookBeforeYieldMin: number;
  /** Requests per step of a transaction. It runs on the main thread, so everything else waits for a step. */
  bookStepRows: number;
  checkpointAfterRows: number;
}
