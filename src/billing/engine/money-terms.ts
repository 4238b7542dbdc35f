/** What is asked of the till for one request, what the till answers, and how the request ends. */

import type { Nano } from "../../money/nano.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Interface } from "../../records.ts";
import type { UsageRow } from "../../store/usage/usage-row.ts";

export interface HoldRequest {
  requestId: string;
  userId: string;
  charge: "balance" | "subscription";
  /** Names of the plans that may pay; null: any. */
  plans: readonly string[] | null;
  tariff: Tariff;
  wantedNano: Nano;
  /**
   * The upper estimate of inputs that cannot be counted beforehand, with the shortest answer: between `leastNano` and
   * `wantedNano`. Left out where everything can be counted.
   */
  firmNano?: Nano;
  /** At most `wantedNano`. */
  leastNano: Nano;
  /** An estimate, for recovery. */
  inputTokens: number;
  keyId: string;
  groupId: string;
  interface: Interface;
  endpoint: string;
  publicModel: string;
  stream: boolean;
  /** It may go on when its client has its answer, and others look for it meanwhile: its hold is a row from the start. */
  isLasting: boolean;
}

export type HoldResult =
  /** Between least and wanted. */
  | { kind: "held"; amountNano: Nano; subscriptionId: string | null }
  /** `resetsAtMs`: a subscription window that refills. */
  | { kind: "short"; availableNano: Nano; resetsAtMs: number | null }
  /** The payer's own requests in flight hold what `firmNano` needs. */
  | { kind: "blocked"; availableNano: Nano; neededNano: Nano }
  /** Earlier requests cost more than was held for them and the wallet could not cover it. */
  | { kind: "in_debt"; debtNano: Nano };

export interface Settlement {
  row: UsageRow;
  /** The whole cost, even above what is held: then the row is flagged, and the wallet may get into debt. */
  chargedNano: Nano;
}
