import { expect, test } from "bun:test";
import { ByteBudget } from "./byte-budget.ts";

test("a key is limited to its share, and all keys together to the total", () => {
  const budget = new ByteBudget({ bytesMax: 100, keyBytesMax: 60 });
  budget.take("a", 50);
  expect([budget.fits("a", 11), budget.fits("a", 10), budget.fits("b", 50)]).toEqual([false, true, true]);
  budget.take("b", 45);
  expect([budget.fits("c", 6), budget.fits("c", 5)]).toEqual([false, true]);
  budget.release("a", 50);
  expect([budget.fits("a", 55), budget.fits("a", 56), budget.fits("b", 16)]).toEqual([true, false, false]);
});
