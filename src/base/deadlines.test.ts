import { expect, test } from "bun:test";
import { openDeadlines } from "./deadlines.ts";

function open() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };
  const deadlines = openDeadlines(1, clock);
  const rung: string[] = [];
  return { clock, deadlines, rung, look: () => Bun.sleep(5) };
}

test("a deadline expires once, within two checks after its time and not before", async () => {
  const { clock, deadlines, rung, look } = open();
  deadlines.set(100, () => rung.push("a"));
  clock.nowMs = 99;
  await look();
  expect(rung).toEqual([]);
  clock.nowMs = 101;
  await look();
  await look();
  expect(rung).toEqual(["a"]);
  deadlines.stop();
});

test("the time of the last check is reported until the next", async () => {
  const { clock, deadlines, look } = open();
  clock.nowMs = 7;
  expect(deadlines.lastScanMs()).toBe(0);
  await look();
  expect(deadlines.lastScanMs()).toBe(7);
  deadlines.stop();
});

test("a cancelled deadline never expires, and may be cancelled twice", async () => {
  const { clock, deadlines, rung, look } = open();
  const deadline = deadlines.set(10, () => rung.push("a"));
  deadlines.set(10, () => rung.push("b"));
  deadlines.cancel(deadline);
  deadlines.cancel(deadline);
  clock.nowMs = 1_000;
  await look();
  expect(rung).toEqual(["b"]);
  deadlines.stop();
});

test("an expiring deadline may cancel the next", async () => {
  const { clock, deadlines, rung, look } = open();
  deadlines.set(10, () => {
    rung.push("a");
    deadlines.cancel(second);
  });
  const second = deadlines.set(10, () => rung.push("b"));
  deadlines.set(10, () => rung.push("c"));
  clock.nowMs = 1_000;
  await look();
  expect(rung).toEqual(["a", "c"]);
  deadlines.stop();
});

test("an expiring deadline may set another", async () => {
  const { clock, deadlines, rung, look } = open();
  deadlines.set(10, () => {
    rung.push("a");
    deadlines.set(10, () => rung.push("b"));
  });
  clock.nowMs = 11;
  await look();
  expect(rung).toEqual(["a"]);
  clock.nowMs = 22;
  await look();
  expect(rung).toEqual(["a", "b"]);
  deadlines.stop();
});
