import { expect, test } from "bun:test";
import { KeyRate, KeySlots } from "./key-limits.ts";

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

test("a key may call as often as its burst, then as often as its rate, and others are not affected", () => {
  let nowMs = 0;
  const rate = new KeyRate({ burst: 3, perSecond: 2 }, () => nowMs);
  const allowed = (key: string) => {
    let calls = 0;
    try {
      for (; calls < 10; calls++) rate.take(key);
    } catch (error) {
      expect(error).toMatchObject({ code: "rate_limit_exceeded", headers: { "retry-after": "1" } });
    }
    return calls;
  };
  expect([allowed("a"), allowed("a"), allowed("b")]).toEqual([3, 0, 3]);
  nowMs = 1_000;
  expect(allowed("a")).toBe(2);
  nowMs = 1_000_000;
  expect(allowed("a")).toBe(3);
});
