import { expect, test } from "bun:test";
import { ByteBudget } from "./byte-budget.ts";

test("no key takes more than its share, and all keys together no more than there is", () => {
  const budget = new ByteBudget({ bytesMax: 100, keyBytesMax: 60 });
  budget.take("a", 50);
  expect([budget.hasRoom("a", 11), budget.hasRoom("a", 10), budget.hasRoom("b", 50)]).toEqual([
    false,
    true,
    true,
  ]);
  budget.take("b", 45);
  expect([budget.hasRoom("c", 6), budget.hasRoom("c", 5)]).toEqual([false, true]);
  budget.giveBack("a", 50);
  expect([budget.hasRoom("a", 55), budget.hasRoom("a", 56), budget.hasRoom("b", 16)]).toEqual([
    true,
    false,
    false,
  ]);
});
