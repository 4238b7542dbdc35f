/** How fast the database takes the billing of this process, for `/metrics`. */

import { HistogramCounts } from "./histogram.ts";

/** In seconds. A transaction of a healthy database takes milliseconds. */
const COMMIT_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

export class BillingMetrics {
  /** From the start of a billing transaction, waits for its turn included, to its commit. */
  readonly commits = new HistogramCounts(COMMIT_BOUNDS);
  /** Settlements that the database did not accept in time. They are saved until it does. */
  overdueSettlements = 0;
}
