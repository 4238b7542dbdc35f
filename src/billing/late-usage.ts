/**
 * The usage of an unpaid background response, which its upstream reports after the row of the request is written. A
 * replaced database may have lost it, so it is added again then.
 */

import type { Db } from "../store/engine/db.ts";
import { type PendingUse, settlePending } from "../store/usage/usage.ts";
import type { BillingEngine } from "./engine/billing-engine.ts";
import type { RecentBookings } from "./engine/recent-bookings.ts";

interface LateUsageOptions {
  readonly db: Db;
  readonly billingEngine: Pick<BillingEngine, "flush">;
  readonly recentBookings: Pick<RecentBookings, "addChange">;
}

export class LateUsage {
  readonly #options: LateUsageOptions;

  constructor(options: LateUsageOptions) {
    this.#options = options;
  }

  /** Changes nothing if the row has its usage. `used` is null if the upstream reported none. */
  async add(
    requestId: string,
    used: PendingUse | null,
    outcome: Parameters<typeof settlePending>[3],
  ): Promise<void> {
    const { db, billingEngine, recentBookings } = this.#options;
    // The row may still be in memory.
    await billingEngine.flush();
    const change = () => settlePending(db, requestId, used, outcome);
    await change();
    recentBookings.addChange(change);
  }
}
