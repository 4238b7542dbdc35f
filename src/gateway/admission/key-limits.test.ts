import { expect, test } from "bun:test";
import { KeySlots } from "./key-limits.ts";

test("a key that has as much in progress as it may have waits, oldest first, and others do not", async () => {
  const slots = new KeySlots({ inProgressMax: 2, waitingMax: 2 });
  const order: string[] = [];
  expect([slots.take("a"), slots.take("a")]).toEqual([undefined, undefined]);
  const waiting = ["first", "second"].map(async (name) => {
    await slots.take("a");
    order.push(name);
  });
  expect(slots.take("a")).toBeNull();
  expect(slots.take("b")).toBeUndefined();
  slots.free("a");
  slots.free("a");
  await Promise.all(waiting);
  expect(order).toEqual(["first", "second"]);
  expect(slots.take("a")).toBeInstanceOf(Promise);
});
