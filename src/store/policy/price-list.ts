import type { PriceList } from "../../records.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { CorruptRow } from "../engine/row.ts";
import { readSetting, writeSetting } from "../settings/settings.ts";
import { priceListForm } from "./price-column.ts";

/** The operator's own list, whose entries stand for those of the bundled one. */

const SETTING = "price_list";

export async function readPriceList(db: Db): Promise<PriceList | null> {
  const written = await readSetting(db, SETTING);
  if (written === null) return null;
  try {
    return priceListForm.parse(JSON.parse(written));
  } catch {
    throw new CorruptRow(`The setting ${SETTING} is not a price list.`);
  }
}

/** Running servers follow the policy's revision, so they take it in. */
export async function writePriceList(db: Db, list: PriceList): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await writeSetting(tx, SETTING, JSON.stringify(list));
  });
}
