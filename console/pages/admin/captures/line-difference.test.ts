import { expect, test } from "bun:test";
import fc from "fast-check";
import { compareLines, withContext } from "./line-difference.ts";

const text = fc
  .array(fc.constantFrom("a", "b", "c", "{", "}"), { maxLength: 30 })
  .map((all) => all.join("\n"));

test("a difference contains both texts whole and in order", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = compareLines(before, after);
      const join = (without: string) =>
        lines
          .filter(({ kind }) => kind !== without)
          .map((line) => line.text)
          .join("\n");
      expect(join("added")).toBe(before);
      expect(join("removed")).toBe(after);
    }),
  );
});

test("a changed line is one removal and one addition, whatever surrounds it", () => {
  const before = ["{", '  "model": "fast",', '  "input": "hi"', "}"].join("\n");
  const after = before.replace("fast", "gpt-5.5-mini");
  expect(compareLines(before, after).filter(({ kind }) => kind !== "same")).toEqual([
    { kind: "removed", text: '  "model": "fast",' },
    { kind: "added", text: '  "model": "gpt-5.5-mini",' },
  ]);
});

test("the difference is as short as possible", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const changes = compareLines(before, after).filter(({ kind }) => kind !== "same").length;
      expect(changes).toBe(shortest(before.split("\n"), after.split("\n")));
    }),
  );
});

/** By the table of the longest common subsequence. */
function shortest(a: readonly string[], b: readonly string[]): number {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) {
      const row = table[i] as number[];
      const below = table[i + 1] as number[];
      row[j] = a[i] === b[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
    }
  return a.length + b.length - 2 * (table[0]?.[0] ?? 0);
}

test("texts without a common line are shown as replaced", () => {
  const long = (letter: string) => Array.from({ length: 2_000 }, (_, i) => letter + i).join("\n");
  const lines = compareLines(long("a"), long("b"));
  expect(lines.filter(({ kind }) => kind === "removed")).toHaveLength(2_000);
  expect(lines.filter(({ kind }) => kind === "added")).toHaveLength(2_000);
});

test("equal lines far from a change are left out and counted", () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i}`).join("\n");
  const shown = withContext(compareLines(before, before.replace("line 10", "other")));
  expect(shown.at(0)).toEqual({ kind: "omitted", count: 7 });
  expect(shown.at(-1)).toEqual({ kind: "omitted", count: 6 });
  expect(shown).toHaveLength(10);
});
