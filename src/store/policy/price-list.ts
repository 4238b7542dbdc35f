/** The operator's own price list. Its entries override those of the bundled list. */

import type { PriceList } from "../../records/price.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { CorruptRow } from "../engine/row.ts";
import { readSetting, writeSetting } from "../settings/settings.ts";
import { priceListForm } from "./price-column.ts";

const SETTING = "price_list";

export async function readPriceList(db: Db): Promise<PriceList | null> {
  const stored = await readSetting(db, SETTING);
  if (stored === null) return null;
  try {
    return priceListForm.parse(JSON.parse(stored));
  } catch {
    throw new CorruptRow(`The setting ${SETTING} is not a price list.`);
  }
}

/** Increases the policy revision, so that running servers reload the list. */
export async function writePriceList(db: Db, list: PriceList): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await writeSetting(tx, SETTING, JSON.stringify(list));
  });
}
