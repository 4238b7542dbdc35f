import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { BUNDLED_PRICES } from "../../money/price-list.ts";
import { readRevisions } from "../engine/revisions.ts";
import { CorruptRow } from "../engine/row.ts";
import { writeSetting } from "../settings/settings.ts";
import { readPolicy } from "./policy.ts";
import { readPriceList, writePriceList } from "./price-list.ts";

eachEngine(({ open }) => {
  test("a price list is read back as written, with the policy, and increases the policy revision", async () => {
    const db = await open();
    expect((await readPolicy(db)).priceList).toBeNull();
    const before = await readRevisions(db);
    await writePriceList(db, BUNDLED_PRICES);
    expect(await readPriceList(db)).toEqual(BUNDLED_PRICES);
    expect((await readPolicy(db)).priceList).toEqual(BUNDLED_PRICES);
    expect((await readRevisions(db)).policy).toBe(before.policy + 1);
  });

  test("a price list with an invalid entry is rejected as a whole", async () => {
    const db = await open();
    const entry = { price: { input: "-1" }, contextTokens: null, outputTokensMax: null };
    await writeSetting(db, "price_list", JSON.stringify({ date: "2026-11-01", models: { m: entry } }));
    expect(await readPriceList(db).catch((error: unknown) => error)).toBeInstanceOf(CorruptRow);
  });
});
