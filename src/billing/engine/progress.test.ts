import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { UNSENT } from "../../store/money/holds.ts";
import { openProgress } from "./progress.ts";

test("a count is due soon after it is told, and the next one not before its interval is over", async () => {
  const limits = { progressMs: 5, checkpointMs: 1_000 };
  const dueMs: number[] = [];
  const beganMs = performance.now();
  const progress = openProgress(
    limits,
    () => dueMs.push(performance.now() - beganMs),
    () => performance.now(),
  );
  const counts = () => progress.take(10).map(([, { outputTokens }]) => outputTokens);
  const isDue = () => eventually(() => progress.isDue(), 10_000);
  progress.open("a", UNSENT);
  progress.count("a", 10);
  await isDue();
  expect(counts()).toEqual([10]);
  progress.count("a", 20);
  expect(progress.isDue()).toBe(false);
  await isDue();
  expect(counts()).toEqual([20]);
  expect(dueMs[0]).toBeLessThan(1_000);
  expect(dueMs[1]).toBeGreaterThanOrEqual(1_000);
  progress.stop();
});
