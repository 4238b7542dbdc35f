/** Holds and settlements, as they are handed to the till. */

import type { Nano } from "../money/nano.ts";
import type { Tariff } from "../money/tariff.ts";
import type { Interface } from "../records.ts";
import type { UsageRow } from "../store/usage-row.ts";

export interface HoldAsked {
  requestId: string;
  userId: string;
  charge: "balance" | "subscription";
  /** Names of the plans that may pay; null: any. */
  plans: readonly string[] | null;
  tariff: Tariff;
  wantedNano: Nano;
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
  | { kind: "short"; availableNano: Nano; resetsAtMs: number | null };

export interface Settlement {
  row: UsageRow;
  /** At most what is held: the rest of a larger one is not charged, and the row flagged. */
  chargedNano: Nano;
}
