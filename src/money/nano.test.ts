import { expect, test } from "bun:test";
import fc from "fast-check";
import { decimalText, parseDecimal, parseUsd, usdText } from "./nano.ts";

test("every amount survives formatting and parsing", () => {
  fc.assert(fc.property(fc.bigInt(-(10n ** 30n), 10n ** 30n), (nano) => parseUsd(usdText(nano)) === nano));
});

test("amounts are formatted exactly, with at least two decimals", () => {
  expect([0n, 10_000_000_000n, 123n, -500_000_000n, 1_234_567_890n].map(usdText)).toEqual([
    "0.00",
    "10.00",
    "0.000000123",
    "-0.50",
    "1.23456789",
  ]);
});

test.each(["", " ", "1.", ".5", "1e3", "+1", "--1", "1,5", "NaN", "Infinity", "0x10", "0.1234567891", "1 "])(
  "%p is not an amount",
  (text) => {
    expect(() => parseUsd(text)).toThrow();
  },
);

test("a decimal is scaled exactly, and its text is canonical", () => {
  expect(parseDecimal("0.15", 6)).toBe(150_000n);
  expect(decimalText(parseDecimal("00.150", 6), 6)).toBe("0.15");
  expect(decimalText(parseDecimal("7", 6), 6)).toBe("7");
  expect(() => parseDecimal("-1", 6)).toThrow();
});
