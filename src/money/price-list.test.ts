import { expect, test } from "bun:test";
import { BUNDLED_PRICES, findListed, findOldPrices } from "./price-list.ts";
import { flatPrice } from "./prices.ts";
import { computeTariffCost, makeTariff, NOTHING_USED } from "./tariff.ts";

test("every bundled price is above zero", () => {
  expect(BUNDLED_PRICES.date).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  for (const [name, { price }] of Object.entries(BUNDLED_PRICES.models)) {
    const used = { ...NOTHING_USED, inputTokens: 1, outputTokens: 1, images: 1 };
    expect([name, computeTariffCost(makeTariff(price), used) > 0n]).toEqual([name, true]);
  }
});

test("an image of a listed size has the listed price", () => {
  const price = findListed("dall-e-3", null)?.model.price ?? {};
  const of = (imageKind: string) =>
    computeTariffCost(makeTariff(price), { ...NOTHING_USED, images: 1, imageKind });
  expect([of("1024x1024/standard"), of("1792x1024/standard"), of("1792x1024/hd")]).toEqual([
    40_000_000n,
    80_000_000n,
    120_000_000n,
  ]);
});

test.each([
  ["gpt-5", 10_000_000n],
  ["gpt-4o", 10_000_000n],
  ["gpt-4o-search-preview", 25_000_000n],
  ["claude-opus-4-8", 10_000_000n],
  ["gemini-3-pro-preview", 14_000_000n],
  ["gemini-2.5-flash", 35_000_000n],
  ["text-embedding-3-small", 0n],
])("a search of %s costs %p nano-USD", (name, nano) => {
  const price = findListed(name, null)?.model.price ?? {};
  expect(computeTariffCost(makeTariff(price), { ...NOTHING_USED, webSearches: 1 })).toBe(nano);
});

test("an entry of the operator's price list overrides the bundled entry only", () => {
  const mine = { price: { input: "9" }, contextTokens: null, outputTokensMax: null };
  const updated = { date: "2026-11-01", models: { "gpt-4o": mine } };
  expect(findListed("gpt-4o", updated)).toEqual({ model: mine, source: "updated list", date: "2026-11-01" });
  expect(findListed("gpt-4o-mini", updated)?.source).toBe("bundled list");
  expect(findListed("toString", updated)).toBeNull();
});

test("Claude under a name of Amazon Bedrock or Vertex AI has its list price, and a tenth more in a geography", () => {
  const findInputPrice = (name: string) => findListed(name, null)?.model.price.input;
  expect(findInputPrice("claude-sonnet-4-5@20250929")).toBe("3");
  expect(findInputPrice("global.anthropic.claude-sonnet-4-5-20250929-v1:0")).toBe("3");
  expect(findListed("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", null)?.model.price).toMatchObject({
    input: "3.3",
    cached_input: "0.33",
    cache_write: "4.125",
    cache_write_1h: "6.6",
    output: "16.5",
  });
});

test("a searched price that was quoted is marked with its source and date, and ages on its own", () => {
  const listed = findListed("gpt-4o", null);
  if (listed === null) throw new Error("gpt-4o is not listed");
  const { units = [], date = "" } = listed.model.quotation ?? {};
  expect(units).toEqual(["per_call.web_search"]);
  expect(findOldPrices(listed, listed.date)).toEqual([]);
  expect(findOldPrices({ ...listed, date: "2027-01-01" }, "2027-01-01")).toEqual([
    { unit: "per_call.web_search", date },
  ]);
  expect(findOldPrices(listed, "2027-01-01")).toHaveLength(2);
});

test("every quoted unit of the bundled list is a unit of its price", () => {
  for (const [name, { price, quotation }] of Object.entries(BUNDLED_PRICES.models))
    for (const unit of quotation?.units ?? [])
      expect([name, unit, Object.hasOwn(flatPrice(price), unit)]).toEqual([name, unit, true]);
});
