import { expect, test } from "bun:test";
import { SerialTask } from "./serial-task.ts";

/** A task whose runs end when the test ends them. */
function openTask() {
  const runs: PromiseWithResolvers<void>[] = [];
  const task = new SerialTask(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  return { task, runs };
}

/** Lets resolved promises run their callbacks. */
const flush = () => new Promise((resolve) => setImmediate(resolve));

test("requests during a run share one further run", async () => {
  const { task, runs } = openTask();
  const first = task.request();
  await flush();
  const second = task.request();
  expect(task.request()).toBe(second);
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await first;
  await flush();
  expect(runs).toHaveLength(2);
  runs[1]?.resolve();
  await second;
  expect(runs).toHaveLength(2);
});

test("a stop waits for the current run and starts no other", async () => {
  const { task, runs } = openTask();
  void task.request();
  await flush();
  const requested = task.request();
  let isStopped = false;
  const stopping = task.stop().then(() => {
    isStopped = true;
  });
  await flush();
  expect(isStopped).toBe(false);
  runs[0]?.resolve();
  await Promise.all([requested, stopping]);
  await task.request();
  expect(runs).toHaveLength(1);
});
