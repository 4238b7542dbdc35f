/** All records that the policy is compiled from, and how a change of one is shown. */

import type { AccountRecord } from "./account.ts";
import type { GroupRecord } from "./group.ts";
import type { ModelRecord } from "./model.ts";
import type { PriceList } from "./price.ts";

/** One changed field, as shown to an operator. Never a secret. */
export interface FieldChange {
  field: string;
  /** Null if the field had no value before, or has none now. */
  from: string | null;
  to: string | null;
}

export interface PolicyRecords {
  models: ModelRecord[];
  accounts: AccountRecord[];
  groups: GroupRecord[];
  /** Entries that replace those of the bundled price list. */
  priceList?: PriceList | null;
}
