/** The operator's own price list. Its entries override those of the bundled list. */

import type { PriceList } from "../../records/price.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { jsonSetting } from "../settings/settings.ts";
import { priceListForm } from "./price-column.ts";

const setting = jsonSetting("price_list", priceListForm, null);
export const readPriceList = setting.read;

/** Increases the policy revision, so that running servers reload the list. */
export async function writePriceList(db: Db, list: PriceList): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await setting.write(tx, list);
  });
}
