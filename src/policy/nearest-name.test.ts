import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { nearestName } from "./nearest-name.ts";

describe("the name that was probably meant", () => {
  test.each([
    ["mymodel", "my-model"],
    ["GPT-5-mini", "gpt-5-mini"],
    ["gtp-5", "gpt-5"],
    ["claude-sonet-45", "claude-sonnet-4-5"],
    ["gpt4o", "gpt-4o"],
  ])("%s is %s", (misspelled, name) => {
    expect(nearestName(misspelled, ["unrelated-name", name, "x"])).toBe(name);
  });

  test("is none for another name, and none for a short one", () => {
    expect(nearestName("claude", ["gpt-5", "gemini-pro"])).toBeNull();
    expect(nearestName("o1", ["o3", "o4"])).toBeNull();
    expect(nearestName("", ["a"])).toBeNull();
  });

  test("has the distance of the whole table of edits", () => {
    const names = fc.string({ unit: fc.constantFrom("a", "b", "-"), maxLength: 14 });
    fc.assert(
      fc.property(names, names, (a, b) => {
        const isNear = countEdits(a, b) <= Math.min(Math.floor(a.length / 3), 4);
        expect(nearestName(a, [b])).toBe(isNear ? b : null);
      }),
      { numRuns: 2_000 },
    );
  });

  test("costs less than 2 ms of CPU for the longest name and any number of names", () => {
    const names = Array.from({ length: 100_000 }, (_, i) => `${"ab".repeat(44)}${i}`);
    const misspelled = "ba".repeat(48);
    for (let i = 0; i < 20; i++) nearestName(misspelled, names);
    const before = process.cpuUsage();
    for (let i = 0; i < 50; i++) nearestName(misspelled, names);
    expect(process.cpuUsage(before).user / 50 / 1_000).toBeLessThan(2);
    expect(nearestName("a".repeat(1_000_000), names)).toBeNull();
  });
});

/** The textbook algorithm. */
function countEdits(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) =>
    Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)),
  );
  const at = (i: number, j: number) => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const row = rows[i];
      if (row !== undefined)
        row[j] = Math.min(
          replaced,
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          isSwap ? at(i - 2, j - 2) + 1 : replaced,
        );
    }
  }
  return at(a.length, b.length);
}
