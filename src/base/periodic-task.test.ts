import { expect, test } from "bun:test";
import { PeriodicTask } from "./periodic-task.ts";

test("runs at intervals, also after a failure, until it is stopped", async () => {
  const reasons: string[] = [];
  const third = Promise.withResolvers<void>();
  let runs = 0;
  const task = new PeriodicTask({
    everyMs: 1,
    // Before it returns a promise.
    run() {
      if (++runs === 3) third.resolve();
      throw new Error(`run ${runs}`);
    },
    onError: (reason) => reasons.push(reason),
  });
  await third.promise;
  await task.stop();
  await task.run();
  expect(reasons).toEqual(Array.from({ length: runs }, (_, index) => `run ${index + 1}`));
});

test("a request joins the run in flight, and stopping waits for it", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let runs = 0;
  let hasStopped = false;
  const run = () => {
    runs++;
    return promise;
  };
  const task = new PeriodicTask({ everyMs: 60_000, run, onError() {} });
  const joined = Promise.all([task.run(), task.run()]);
  const stopped = task.stop().then(() => {
    hasStopped = true;
  });
  expect([runs, hasStopped, task.isStopped]).toEqual([1, false, true]);
  resolve();
  await Promise.all([joined, stopped]);
  expect([runs, hasStopped]).toEqual([1, true]);
});
