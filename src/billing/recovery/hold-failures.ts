/** Counts how often this process failed to settle a hold. After the last attempt it is set aside for an operator. */

import type { Clock } from "../../base/clock.ts";
import type { BillingFaults } from "../../observe/billing-faults.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import type { Hold } from "../../store/money/holds.ts";
import { setAsideHold } from "../../store/money/set-aside-holds.ts";
import { errorReason } from "../engine/store-faults.ts";

export interface HoldFailuresOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  readonly log: Pick<Log, "error">;
  readonly faults: Pick<BillingFaults, "add">;
  readonly limits: { readonly holdAttemptsMax: number };
}

export class HoldFailures {
  readonly #options: HoldFailuresOptions;
  readonly #counts = new Map<string, number>();

  constructor(options: HoldFailuresOptions) {
    this.#options = options;
  }

  /** Returns whether that was the last attempt. The database was not at fault. */
  async note(
    { requestId, processId }: Pick<Hold, "requestId" | "processId">,
    error: unknown,
  ): Promise<boolean> {
    const { db, clock, log, faults, limits } = this.#options;
    const reason = errorReason(error);
    const failures = (this.#counts.get(requestId) ?? 0) + 1;
    this.#counts.set(requestId, failures);
    log.error("hold_unrecoverable", { request_id: requestId, reason, attempt: failures });
    if (failures < limits.holdAttemptsMax) return false;
    const wasMoved = await setAsideHold(db, { requestId, processId, reason, nowMs: clock.nowMs() });
    this.#counts.delete(requestId);
    if (!wasMoved) return true;
    faults.add("hold_set_aside");
    log.error("hold_set_aside", { request_id: requestId, reason, process_id: processId });
    return true;
  }

  /** The hold was settled. */
  forget(requestId: string): void {
    this.#counts.delete(requestId);
  }
}
