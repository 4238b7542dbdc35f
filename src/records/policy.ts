/** All records that the policy is compiled from, and how a change of one is shown. */

import type { ACCOUNT_FIELDS, AccountRecord } from "./account.ts";
import type { ValueOf } from "./fields.ts";
import type { GROUP_FIELDS, GroupRecord } from "./group.ts";
import type { KEY_FIELDS } from "./key.ts";
import type { MODEL_FIELDS, ModelRecord } from "./model.ts";
import type { PriceList } from "./price.ts";
import type { RequestPolicyRecord } from "./request-policy.ts";
import type { ToolSignInRecord } from "./tool-sign-in.ts";

type DeclaredIn<Fields> = Fields[keyof Fields];
type DeclaredField =
  | DeclaredIn<typeof ACCOUNT_FIELDS>
  | DeclaredIn<typeof GROUP_FIELDS>
  | DeclaredIn<typeof MODEL_FIELDS>
  | DeclaredIn<typeof KEY_FIELDS>;

/** The kinds of fields, each with the type of its values. */
export type FieldTypes = {
  [Kind in DeclaredField["kind"]]: ValueOf<Extract<DeclaredField, { readonly kind: Kind }>>;
};

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
  requestPolicies?: RequestPolicyRecord[];
  /** Null if it was never configured. */
  toolSignIn?: ToolSignInRecord | null;
}
