/** The worked examples of docs/billing.md are worked out again. */

import { expect, test } from "bun:test";
import { resolve } from "node:path";
import { parse } from "yaml";
import { usdText } from "../src/money/nano.ts";
import { costOf, makeTariff, NOTHING_USED } from "../src/money/tariff.ts";

const text = await Bun.file(resolve(import.meta.dir, "../docs/billing.md")).text();
const ROW = /^\| `(\{.*?\})` \| `([\d.]+)` \| `(\{.*?\})` \| \$([\d.]+) \|$/gm;
const examples = [...text.matchAll(ROW)].map(([, price = "", times = "", used = "", cost = ""]) => [
  price,
  times,
  used,
  cost,
]);

test("there are some", () => {
  expect(examples.length).toBeGreaterThan(5);
});

test.each(examples)("%s times %s for %s", (price = "", group = "", used = "", cost = "") => {
  const { input, cached, output, reasoning, images, kind } = parse(used);
  const metered = {
    ...NOTHING_USED,
    inputTokens: input ?? 0,
    cachedTokens: cached ?? 0,
    outputTokens: output ?? 0,
    reasoningTokens: reasoning ?? 0,
    images: images ?? 0,
    imageKind: kind ?? null,
  };
  expect(usdText(costOf(makeTariff(parse(price), { group }), metered))).toBe(cost);
});
