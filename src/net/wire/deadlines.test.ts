import { expect, test } from "bun:test";
import { openDeadlines } from "./deadlines.ts";

function open() {
  const clock = { nowMs: 0, monotonicMs: () => clock.nowMs };
  const alarms = openDeadlines(1, clock);
  const rung: string[] = [];
  return { clock, alarms, rung, look: () => Bun.sleep(5) };
}

test("an alarm rings once, within two looks after its time and not before", async () => {
  const { clock, alarms, rung, look } = open();
  alarms.set(100, () => rung.push("a"));
  clock.nowMs = 99;
  await look();
  expect(rung).toEqual([]);
  clock.nowMs = 101;
  await look();
  await look();
  expect(rung).toEqual(["a"]);
  alarms.stop();
});

test("the time of the last look is told until the next", async () => {
  const { clock, alarms, look } = open();
  clock.nowMs = 7;
  expect(alarms.lookedAtMs()).toBe(0);
  await look();
  expect(alarms.lookedAtMs()).toBe(7);
  alarms.stop();
});

test("one that was cancelled never rings, and cancelling twice harms nobody", async () => {
  const { clock, alarms, rung, look } = open();
  const alarm = alarms.set(10, () => rung.push("a"));
  alarms.set(10, () => rung.push("b"));
  alarms.cancel(alarm);
  alarms.cancel(alarm);
  clock.nowMs = 1_000;
  await look();
  expect(rung).toEqual(["b"]);
  alarms.stop();
});

test("one that rings may cancel the next", async () => {
  const { clock, alarms, rung, look } = open();
  alarms.set(10, () => {
    rung.push("a");
    alarms.cancel(second);
  });
  const second = alarms.set(10, () => rung.push("b"));
  alarms.set(10, () => rung.push("c"));
  clock.nowMs = 1_000;
  await look();
  expect(rung).toEqual(["a", "c"]);
  alarms.stop();
});

test("one that rings may set the next", async () => {
  const { clock, alarms, rung, look } = open();
  alarms.set(10, () => {
    rung.push("a");
    alarms.set(10, () => rung.push("b"));
  });
  clock.nowMs = 11;
  await look();
  expect(rung).toEqual(["a"]);
  clock.nowMs = 22;
  await look();
  expect(rung).toEqual(["a", "b"]);
  alarms.stop();
});
