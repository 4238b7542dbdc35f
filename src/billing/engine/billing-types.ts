/** Types of the billing engine: the hold request, the hold result and the settlement of one request. */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

/** What a hold and the usage row of a request have in common. */
type RequestFacts = Pick<
  UsageRow,
  "requestId" | "keyId" | "groupId" | "interface" | "endpoint" | "publicModel" | "stream"
>;

export function pickFacts(request: RequestFacts): RequestFacts {
  const { requestId, keyId, groupId, interface: called, endpoint, publicModel, stream } = request;
  return { requestId, keyId, groupId, interface: called, endpoint, publicModel, stream };
}

export interface HoldRequest extends RequestFacts {
  userId: string;
  charge: "balance" | "subscription";
  /** Names of the plans that may pay; null means any plan. */
  plans: readonly string[] | null;
  tariff: Tariff;
  wantedNano: Nano;
  /**
   * The upper estimate of inputs that cannot be counted in advance, with the shortest output. Between `leastNano` and
   * `wantedNano`; omitted if every input can be counted.
   */
  firmNano?: Nano;
  /** At most `wantedNano`. */
  leastNano: Nano;
  /** An estimate, used by recovery. */
  inputTokens: number;
  /**
   * The request may continue after its client has a response, and other requests look it up meanwhile. Its hold is
   * written to the database from the start.
   */
  isLasting: boolean;
}

export type HoldResult =
  /** Between `leastNano` and `wantedNano`. */
  | { kind: "held"; amountNano: Nano; subscriptionId: string | null }
  /** `resetsAtMs`: when a subscription window resets. */
  | { kind: "short"; availableNano: Nano; resetsAtMs: number | null }
  /** The payer's own requests in flight hold the money that `firmNano` needs. */
  | { kind: "blocked"; availableNano: Nano; neededNano: Nano }
  /** Earlier requests cost more than their holds, and the wallet could not cover the difference. */
  | { kind: "in_debt"; debtNano: Nano };

export interface Settlement {
  row: UsageRow;
  /** The whole cost, even above the hold: then the row is flagged and the wallet may get a debt. */
  chargedNano: Nano;
}
