import { expect, test } from "bun:test";
import { NO_PRICE, type PriceDocument, priceDocument, priceValues } from "./price.ts";

test("a price comes back from its form as it went in", () => {
  const price: PriceDocument = {
    input: "1.25",
    output: "10",
    image: "0.25",
    images: { "1024x1024/high": "0.167", "1024x1536/high": "0.25" },
    long_context: { above: 200_000, input: "2.5", output: "15" },
  };
  expect(priceDocument(priceValues(price))).toEqual(price);
});

test("an empty form is no price, and blanks are nothing", () => {
  expect(priceDocument(priceValues(undefined))).toBeUndefined();
  expect(priceDocument({ ...NO_PRICE, units: { input: " " }, images: "\n \n" })).toBeUndefined();
});

test("what was half typed is sent, so that the API can say what is missing", () => {
  expect(priceDocument({ ...NO_PRICE, longAbove: 1_000, images: "1024x1024" })).toEqual({
    images: { "1024x1024": "" },
    long_context: { above: 1_000, input: "" },
  });
});
