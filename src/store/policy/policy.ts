/** Reads the policy from the database. */

import type { PolicyRecords } from "../../records/policy.ts";
import { type Db, snapshot } from "../engine/db.ts";
import { readToolSignIn } from "../settings/sections.ts";
import { listAccounts } from "./accounts.ts";
import { listGroups } from "./groups.ts";
import { listModels } from "./models.ts";
import { readPriceList } from "./price-list.ts";
import { listRequestPolicies } from "./request-policies.ts";

/** Reads all records that the policy is compiled from, in one snapshot. */
export async function readPolicy(db: Db): Promise<Required<PolicyRecords>> {
  return snapshot(db, async (tx) => ({
    models: await listModels(tx),
    accounts: await listAccounts(tx),
    groups: await listGroups(tx),
    priceList: await readPriceList(tx),
    requestPolicies: await listRequestPolicies(tx),
    toolSignIn: await readToolSignIn(tx),
  }));
}
