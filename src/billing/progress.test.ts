import { expect, test } from "bun:test";
import { openProgress } from "./progress.ts";

test("a count is due soon after it is told, and the next one not before its interval is over", async () => {
  const limits = { progressMs: 5, checkpointMs: 300 };
  const dueMs: number[] = [];
  const beganMs = performance.now();
  const progress = openProgress(
    limits,
    () => dueMs.push(performance.now() - beganMs),
    () => performance.now(),
  );
  progress.open("a");
  progress.count("a", 10);
  await Bun.sleep(100);
  expect(progress.take(10).map(([, { outputTokens }]) => outputTokens)).toEqual([10]);
  progress.count("a", 20);
  await Bun.sleep(50);
  expect(progress.isDue()).toBe(false);
  await Bun.sleep(300);
  expect(progress.take(10).map(([, { outputTokens }]) => outputTokens)).toEqual([20]);
  expect(dueMs[0]).toBeLessThan(100);
  expect(dueMs[1]).toBeGreaterThanOrEqual(300);
  progress.stop();
});
