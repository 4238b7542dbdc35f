/** Faults of the books that an operator should look at, counted since the process started. */

import type { Log } from "../observe/log.ts";
import type { Settled } from "./booking.ts";

/**
 * `unpaid_row`: a paid request was recorded without a payer. `journal_damaged`: a journal of an earlier process could
 * not be read to its end.
 */
export const BILLING_FAULTS = ["unpaid_row", "journal_damaged"] as const;
export type BillingFault = (typeof BILLING_FAULTS)[number];

export interface BillingFaultCount {
  fault: BillingFault;
  count: number;
  /** Of the latest one; null while there is none. */
  latestAtMs: number | null;
}

export class BillingFaults {
  private readonly counts = new Map<BillingFault, { count: number; latestAtMs: number }>();
  private readonly nowMs: () => number;

  constructor(nowMs: () => number) {
    this.nowMs = nowMs;
  }

  add(fault: BillingFault): void {
    this.counts.set(fault, { count: (this.counts.get(fault)?.count ?? 0) + 1, latestAtMs: this.nowMs() });
  }

  list(): BillingFaultCount[] {
    return BILLING_FAULTS.map((fault) => ({
      fault,
      count: this.counts.get(fault)?.count ?? 0,
      latestAtMs: this.counts.get(fault)?.latestAtMs ?? null,
    }));
  }
}

/** Settlements that did not find their hold. */
export function reportSettled(log: Log, faults: BillingFaults, requestId: string, settled: Settled): void {
  if (settled === "late") log.warn("settlement_late", { request_id: requestId });
  if (settled === "lost") log.warn("settlement_without_hold", { request_id: requestId });
  if (settled !== "unpaid") return;
  faults.add("unpaid_row");
  log.error("settlement_unpaid", { request_id: requestId });
}
