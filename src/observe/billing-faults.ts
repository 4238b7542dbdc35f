/** Counts billing faults that an operator should look at, since the process started. */

/**
 * `unpaid_row`: a paid request was recorded without a payer. `journal_damaged`: a journal of an earlier process could
 * not be read to its end. `hold_set_aside`: a hold of an ended process could not be settled. `reconciliation_failed`: the hourly reconciliation found contradictions. `charge_bounded`: a
 * request cost far more than its hold, and the rest was not charged. `searches_bounded`: a request searched the web more
 * often than was paid for, and the rest was not charged.
 */
const BILLING_FAULTS = [
  "unpaid_row",
  "journal_damaged",
  "hold_set_aside",
  "reconciliation_failed",
  "charge_bounded",
  "searches_bounded",
] as const;
export type BillingFault = (typeof BILLING_FAULTS)[number];

interface BillingFaultCount {
  fault: BillingFault;
  count: number;
  /** Time of the latest fault; null if there is none. */
  latestAtMs: number | null;
}

export class BillingFaults {
  readonly #counts = new Map<BillingFault, { count: number; latestAtMs: number }>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  add(fault: BillingFault): void {
    this.#counts.set(fault, { count: (this.#counts.get(fault)?.count ?? 0) + 1, latestAtMs: this.#nowMs() });
  }

  list(): BillingFaultCount[] {
    return BILLING_FAULTS.map((fault) => ({
      fault,
      count: this.#counts.get(fault)?.count ?? 0,
      latestAtMs: this.#counts.get(fault)?.latestAtMs ?? null,
    }));
  }
}
