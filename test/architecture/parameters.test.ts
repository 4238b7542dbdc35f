/** The number of positional parameters: of more, a reader of a call cannot tell which is which. */

import { expect, test } from "bun:test";
import { relative } from "node:path";
import { readSources, SRC } from "./source-graph.ts";

const PARAMETERS_MAX = 5;

/** The formatter puts each parameter on a line of its own where they do not fit one line. */
const FUNCTION = /^( *)(?:export )?(?:async )?function\*? (\w+)[^(\n]*\((.*)$/;
const METHOD = /^( +)(?:(?:static|override|async) )*\*?(#?\w+)(?:<.*?>)?\((.*)$/;
const STATEMENT = /^ *(?:if|for|while|switch|catch|return|await|super|constructor)\b/;

/** Functions with more, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "billing/write-behind/book-batches.ts: bookBatches":
    "a transaction, its rows, and the steps in which they are booked",
};

function findLong(text: string): string[] {
  const lines = text.split("\n");
  return lines.flatMap((line, at) => {
    const start = FUNCTION.exec(line) ?? (STATEMENT.test(line) ? null : METHOD.exec(line));
    if (start === null) return [];
    const [, indent = "", name = "", rest = ""] = start;
    return countParameters(rest, lines.slice(at + 1), indent) > PARAMETERS_MAX ? [name] : [];
  });
}

function countParameters(rest: string, following: readonly string[], indent: string): number {
  // On one line: `name: Type` for each; types within brackets have their own colons.
  if (rest !== "") return rest.endsWith("{") ? flatten(rest).split(",").length : 0;
  const end = following.findIndex((line) => line.startsWith(`${indent})`));
  // A pattern over several lines counts at the line that closes it.
  return following
    .slice(0, Math.max(0, end))
    .filter((line) => line.startsWith(`${indent}  `) && /^[^\s/*].*[:=]/.test(line.slice(indent.length + 2)))
    .length;
}

/** The list of parameters without what stands in brackets. */
function flatten(rest: string): string {
  let text = rest;
  for (let before = ""; before !== text; ) {
    before = text;
    text = text.replace(/\([^()]*\)|\{[^{}]*\}|\[[^[\]]*\]|<[^<>]*>/g, "");
  }
  return text.slice(0, text.indexOf(")"));
}

test("functions with more parameters are found on one line and on several", () => {
  const found = [
    "function a(b: A, c: B, d: C, e: D, f: E, g: F): void {\n}",
    "  #a(b: A, c: B, d: C, e: D, f: E, g: F): void {\n  }",
    "async function a(\n  b: A,\n  { c, d }: B,\n  e: C,\n  f: D,\n  g: (h: E) => F,\n  i = 0,\n): void {\n}",
  ];
  for (const text of found) expect(findLong(text)).toHaveLength(1);
  expect(findLong("function a(b: Map<A, B>, { c, d }: C, e: [A, B, C], f: D): void {\n}")).toEqual([]);
});

test(`no function has more than ${PARAMETERS_MAX} positional parameters`, () => {
  const long = readSources("src")
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, text }) => findLong(text).map((name) => `${relative(SRC, path)}: ${name}`));
  expect(long).toEqual(Object.keys(EXCEPTIONS));
});
