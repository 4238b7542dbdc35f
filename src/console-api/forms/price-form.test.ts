import { expect, test } from "bun:test";
import { makeTariff } from "../../money/tariff.ts";
import type { Price } from "../../records/price.ts";
import { priceObject, priceResponse } from "./price-form.ts";

const priced = (price: Price, group = "1", model?: string) =>
  priceResponse.parse(priceObject(makeTariff(price, { group, model })));

test("includes both multipliers, exactly", () => {
  const { tokens } = priced({ input: "0.15", output: "0.6" }, "1.000001", "2");
  expect(tokens).toEqual({ input: "0.3000003", cached_input: "0.3000003", output: "1.2000012" });
});

test("shows explicit prices and omits fallbacks", () => {
  const { tokens } = priced({
    input: "1",
    cached_input: "0.1",
    output: "4",
    reasoning: "8",
    audio_input: "1",
  });
  expect(tokens).toEqual({ input: "1.00", cached_input: "0.10", output: "4.00", reasoning: "8.00" });
});

test("shows long context, images and requests if they have a price", () => {
  const price = priced(
    {
      input: "1",
      output: "2",
      image: "0.04",
      images: { "1024x1024/hd": "0.08" },
      request: "0.001",
      long_context: { above: 200_000, input: "3" },
    },
    "0.5",
  );
  expect(price).toMatchObject({
    image: "0.02",
    images: { "1024x1024/hd": "0.04" },
    request: "0.0005",
    long_context: { above: 200_000, tokens: { input: "1.50", output: "1.00" } },
  });
  expect(priced({ input: "1" })).toMatchObject({
    image: null,
    images: {},
    request: null,
    long_context: null,
  });
});

test("a multiplier of zero makes everything free", () => {
  expect(priced({ input: "5", output: "9" }, "0").tokens).toMatchObject({ input: "0.00", output: "0.00" });
});
