import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { Progress } from "./progress.ts";

test("a token count is due soon after it is recorded, and the next one only after the interval", async () => {
  const limits = { progressMs: 5, checkpointMs: 1_000 };
  const dueMs: number[] = [];
  const beganMs = performance.now();
  const progress = new Progress({
    limits,
    monotonicMs: () => performance.now(),
    onDue: () => dueMs.push(performance.now() - beganMs),
  });
  const counts = () => progress.takeDue(10).map(([, { outputTokens }]) => outputTokens);
  const isDue = () => eventually(() => progress.isDue());
  progress.open("a", UNSENT);
  progress.recordOutputTokens("a", 10);
  await isDue();
  expect(counts()).toEqual([10]);
  progress.recordOutputTokens("a", 20);
  expect(progress.isDue()).toBe(false);
  await isDue();
  expect(counts()).toEqual([20]);
  expect(dueMs[0]).toBeLessThan(1_000);
  expect(dueMs[1]).toBeGreaterThanOrEqual(1_000);
  progress.stop();
});
