import { expect, test } from "bun:test";
import { MessageRate } from "./message-rate.ts";

test("messages above the rate are rejected, and far above it are abuse", () => {
  const rate = new MessageRate(2);
  const taken = (nowMs: number, count: number) => Array.from({ length: count }, () => rate.take(nowMs));
  expect(taken(0, 3)).toEqual(["taken", "taken", "too_many"]);
  expect(taken(999, 6)).toEqual([...Array(5).fill("too_many"), "abuse"]);
  expect(taken(1_000, 3)).toEqual(["taken", "taken", "too_many"]);
});
