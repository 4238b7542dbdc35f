import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { findOperation, firstOperation } from "../described.ts";
import { locateProblems } from "./locate-problems.ts";

const { schema } = findOperation("createChatCompletion") ?? firstOperation();

/** The marked part of the text and the kind of each problem. */
function marks(text: string): string[] {
  return locateProblems(text, schema).map(
    ({ problem, from, to, line }) => `${line} ${problem.kind} ${text.slice(from, to)}`,
  );
}

describe("a problem of a body", () => {
  test("is at the value that is wrong, in the order of the text", () => {
    expect(marks('{\n"messages": [{"role": "user"}, {"role": "x"}],\n"model": 1}')).toEqual([
      '2 value "x"',
      "3 type 1",
    ]);
  });

  test("is at the bracket of an object that lacks a member, or that stands for something else", () => {
    expect(marks('{"model": "a"}')).toEqual(["1 missing {"]);
    expect(marks('{"model": {"a": 1}, "messages": [{}]}')).toEqual(["1 type {", "1 missing {"]);
    expect(marks("[]")).toEqual(["1 type ["]);
  });

  test("is at the last of several members with one name, escaped or not", () => {
    expect(marks('{"messages": [{"role": "user"}], "model": "a", "m\\u006fdel": 2}')).toEqual(["1 type 2"]);
  });

  test("of the syntax is where the text stops to be JSON", () => {
    expect(marks('{"a": 1,\n "b" 2}')).toEqual(["2 syntax 2"]);
    expect(marks('{"a": ')).toEqual(["1 syntax :"]);
    expect(marks("")).toEqual(["1 syntax "]);
  });

  test("is inside of the text, whatever the text is", () => {
    const isInside = (text: string) =>
      locateProblems(text, schema).every(({ from, to }) => 0 <= from && from <= to && to <= text.length);
    fc.assert(fc.property(fc.string(), isInside));
    fc.assert(
      fc.property(fc.json(), fc.nat(), (text, end) => isInside(text.slice(0, end % (text.length + 1)))),
    );
    fc.assert(fc.property(fc.json(), isInside));
  });
});
