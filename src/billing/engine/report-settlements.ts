/** Logs settlements that did not find their hold. */

import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { SettlementResult } from "./booking.ts";

export function reportSettlement(
  log: Log,
  faults: BillingFaults,
  requestId: string,
  result: SettlementResult,
): void {
  if (result === "late") log.warn("settlement_late", { request_id: requestId });
  if (result === "lost") log.warn("settlement_without_hold", { request_id: requestId });
  if (result !== "unpaid") return;
  faults.add("unpaid_row");
  log.error("settlement_unpaid", { request_id: requestId });
}
