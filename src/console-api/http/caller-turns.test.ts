import { expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { CallerTurns } from "./caller-turns.ts";

/** Operations that end when the test ends them, in the order in which they began. */
function openWork(turns: CallerTurns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (caller: string, name: string) =>
    turns.run(caller, () => {
      begun.push(name);
      return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
    });
  return { begun, run, end: (name: string) => ends.get(name)?.() };
}

test("operations of one caller run a few at once, in their order, and others do not wait for them", async () => {
  const { begun, run, end } = openWork(new CallerTurns({ runningMax: 2, waitingMax: 9 }));
  const reads = ["a1", "a2", "a3", "a4"].map((name) => run("a", name));
  reads.push(run("b", "b1"));
  expect(begun).toEqual(["a1", "a2", "b1"]);
  end("a2");
  await reads[1];
  await eventually(() => begun.length, { equals: 4 });
  expect(begun).toEqual(["a1", "a2", "b1", "a3"]);
  for (const name of ["a1", "a3", "b1"]) end(name);
  await reads[0];
  await eventually(() => begun.includes("a4"));
  end("a4");
  expect(await Promise.all(reads)).toEqual(["a1", "a2", "a3", "a4", "b1"]);
});

test("a failed operation passes its turn on", async () => {
  const turns = new CallerTurns({ runningMax: 1, waitingMax: 9 });
  const failed = turns.run("a", () => Promise.reject(new Error("no")));
  const next = turns.run("a", async () => "yes");
  await expect(failed).rejects.toThrow("no");
  expect(await next).toBe("yes");
});

test("too many waiting operations of a caller are rejected", async () => {
  const { begun, run, end } = openWork(new CallerTurns({ runningMax: 1, waitingMax: 1 }));
  const reads = [run("a", "a1"), run("a", "a2")];
  await expect(run("a", "a3")).rejects.toMatchObject({ code: "rate_limit_exceeded" });
  end("a1");
  await reads[0];
  await eventually(() => begun.includes("a2"));
  end("a2");
  expect(await Promise.all(reads)).toEqual(["a1", "a2"]);
});
