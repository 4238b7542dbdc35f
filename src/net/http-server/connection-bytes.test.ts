import { expect, test } from "bun:test";
import { ConnectionBytes } from "./connection-bytes.ts";

function createHolder(budget: ConnectionBytes) {
  return {
    bytes: 0,
    yielded: 0,
    occupy(bytes: number) {
      const before = this.bytes;
      this.bytes = bytes;
      budget.change(this, before, bytes);
    },
    yieldBytes() {
      this.yielded++;
      this.occupy(0);
    },
  };
}

test("the oldest connection releases its bytes when the budget is exceeded", () => {
  const budget = new ConnectionBytes(100);
  const [first, second, third] = [createHolder(budget), createHolder(budget), createHolder(budget)];
  first.occupy(40);
  second.occupy(40);
  first.occupy(20);
  third.occupy(40);
  expect([first.yielded, second.yielded, third.yielded, budget.occupiedBytes]).toEqual([0, 0, 0, 100]);
  third.occupy(50);
  expect([first.yielded, second.yielded, third.yielded, budget.occupiedBytes]).toEqual([1, 0, 0, 90]);
  // A connection that starts again is the youngest.
  first.occupy(10);
  third.occupy(70);
  expect([first.yielded, second.yielded, third.yielded, budget.occupiedBytes]).toEqual([1, 1, 0, 80]);
});

test("a connection that exceeds the budget alone releases its own bytes", () => {
  const budget = new ConnectionBytes(100);
  const only = createHolder(budget);
  only.occupy(101);
  expect([only.yielded, budget.occupiedBytes]).toEqual([1, 0]);
});
