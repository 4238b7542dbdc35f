import { expect, test } from "bun:test";
import { nextTurn } from "../../base/next-turn.ts";
import { CountingTurns } from "./counting-turns.ts";

/** Turns of a clock that only the steps of the counts move. */
function openTurns(): { turns: CountingTurns; takeMs: (ms: number) => void } {
  let nowMs = 0;
  return {
    turns: new CountingTurns({ monotonicMs: () => nowMs }),
    takeMs: (ms) => {
      nowMs += ms;
    },
  };
}

test("all counts together take 4 ms of a turn, one step of each after the other", async () => {
  const { turns, takeMs } = openTurns();
  const steps: string[] = [];
  const count = (name: string) => {
    let left = 3;
    return turns.run({
      step() {
        steps.push(name);
        takeMs(2);
        return --left === 0;
      },
    });
  };
  const all = Promise.all([count("a"), count("b"), count("c")]);
  expect(steps).toEqual([]);
  await nextTurn();
  expect(steps).toEqual(["a", "b"]);
  await nextTurn();
  expect(steps).toEqual(["a", "b", "c", "a"]);
  await all;
  expect(steps.join("")).toBe("abcabcabc");
});

test("a count that fails is rejected, and the others continue", async () => {
  const { turns } = openTurns();
  const failing = turns.run({
    step() {
      throw new Error("bad text");
    },
  });
  const other = turns.run({ step: () => true });
  expect(failing).rejects.toThrow("bad text");
  await other;
});
