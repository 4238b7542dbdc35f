/** The times and bounds of the limit borrower. Their values are in config/limits/node-limits.ts. */

export interface BorrowerTiming {
  /** What is borrowed is used for this long after the last call that was answered was sent. */
  readonly nodeTermMs: number;
  /** How often what has changed is reported, and how often a call is sent at least. */
  readonly exchangeMs: number;
  readonly beatMs: number;
  /** Bounds of the deadline of a call, which is four round trips. */
  readonly callMinMs: number;
  readonly callMaxMs: number;
  /** The coordinator is lost after this many failures in a row, and this time without a reply. */
  readonly faultsMax: number;
  readonly lostAfterMs: number;
  readonly retryMs: number;
  /** How long the others have to publish that they have lost the coordinator as well. */
  readonly lossCheckMs: number;
  /** How long idle amounts are kept without use. */
  readonly keepMs: number;
  /** How long a request of another node that waits keeps this one from holding anything idle. */
  readonly contendedMs: number;
  /** How long a request waits for other nodes to return what is idle, and for a slot before it asks again. */
  readonly recallMs: number;
  readonly slotAskMs: number;
  /** How long it is remembered that nothing is left. */
  readonly exhaustedMs: number;
  /** How long a request waits for a coordinator that lends nothing. */
  readonly closedMs: number;
  /** How long a coordinator may lend nothing before that is reported. */
  readonly closedReportMs: number;
  /**
   * How long a coordinator that has lost its state waits for a registered process that does not declare: longer than a
   * process that has ended stays registered.
   */
  readonly undeclaredMaxMs: number;
  /** Records, asks and refunds of one call. The last ask may add some. */
  readonly recordsPerCallMax: number;
  readonly refundsPerCallMax: number;
  /**
   * Long windows of one call. The stored use of each may have to be read, in 2 to 20 ms, and a call that takes longer
   * than the server allows would be repeated for ever.
   */
  readonly windowsPerCallMax: number;
  readonly holdingsPerBatchMax: number;
  /** How often the coordinators are asked for terms of processes that are not registered. */
  readonly burialMs: number;
  readonly sweepMs: number;
  /**
   * How long the use of a process that has ended may count without being known: a minute, and its term. A node that has
   * never reached the coordinator serves its share only after this time.
   */
  readonly unknownUseMs: number;
}
