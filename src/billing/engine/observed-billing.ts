/** A billing engine that reports the usage rows of this process to an observer. Rows of recovered processes are not reported. */

import type { UsageRow } from "../../store/usage/usage.ts";
import type { BillingEngine } from "./billing-engine.ts";
import type { Settlement } from "./billing-types.ts";
import { ForwardingBilling } from "./forwarding-billing.ts";

export class ObservedBilling extends ForwardingBilling {
  readonly #onRow: (row: UsageRow) => void;

  constructor(inner: BillingEngine, onRow: (row: UsageRow) => void) {
    super(inner);
    this.#onRow = onRow;
  }

  override settle(settlement: Settlement): Promise<void> | null {
    const settled = super.settle(settlement);
    if (settled === null) this.#onRow(settlement.row);
    // The caller handles a failure. A row that is stored later was not reported, which the observer allows for.
    else
      void settled.then(
        () => this.#onRow(settlement.row),
        () => {},
      );
    return settled;
  }

  override push(row: UsageRow): void {
    super.push(row);
    this.#onRow(row);
  }
}
