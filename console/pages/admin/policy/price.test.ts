import { expect, test } from "bun:test";
import { NO_PRICE, type PriceDocument, priceDocument, priceValues } from "./price.ts";

test("a price survives the round trip through its form", () => {
  const price: PriceDocument = {
    input: "1.25",
    output: "10",
    image: "0.25",
    images: { "1024x1024/high": "0.167", "1024x1536/high": "0.25" },
    long_context: { above: 200_000, input: "2.5", output: "15" },
    per_call: { web_search: "0.01" },
    tier: { fast: "6" },
  };
  expect(priceDocument(priceValues(price))).toEqual(price);
});

test("an empty form is no price, and blank fields are ignored", () => {
  expect(priceDocument(priceValues(undefined))).toBeUndefined();
  expect(priceDocument({ ...NO_PRICE, units: { input: " " }, images: "\n \n" })).toBeUndefined();
});

test("an incomplete price is sent, so that the API reports the missing fields", () => {
  expect(priceDocument({ ...NO_PRICE, longAbove: 1_000, images: "1024x1024" })).toEqual({
    images: { "1024x1024": "" },
    long_context: { above: 1_000, input: "" },
  });
});
