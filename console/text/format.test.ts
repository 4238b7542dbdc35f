import { expect, test } from "bun:test";
import { openFormat } from "./format.ts";

const { money, moneyLeft } = openFormat("en");

test("the remaining amount is rounded down", () => {
  expect(moneyLeft("24.995224")).toBe("$24.99");
  expect(moneyLeft("0.09999")).toBe("$0.0999");
  expect(moneyLeft("-1.001")).toBe("-$1.01");
  expect(moneyLeft("25")).toBe("$25.00");
});

test("a paid amount is rounded to the nearest", () => {
  expect(money("24.995224")).toBe("$25.00");
  expect(money("0.001234")).toBe("$0.00123");
});
