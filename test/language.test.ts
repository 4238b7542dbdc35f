/** The language of the code: unique type names, nouns instead of participles, headers above imports, short functions. */

import { describe, expect, test } from "bun:test";
import { basename, relative } from "node:path";
import { measureFunctions } from "./architecture/function-lengths.ts";
import { ROOT, readSources } from "./architecture/source-graph.ts";

/** Participles that do not describe a type or a file. */
const PARTICIPLES = new Set([
  "admitted",
  "asked",
  "begun",
  "booked",
  "cancelled",
  "claimed",
  "counted",
  "done",
  "ended",
  "folded",
  "found",
  "gathered",
  "given",
  "granted",
  "heard",
  "held",
  "kept",
  "left",
  "made",
  "named",
  "opened",
  "posted",
  "presented",
  "read",
  "redeemed",
  "refused",
  "said",
  "settled",
  "shown",
  "spent",
  "spooled",
  "taken",
  "told",
  "verified",
  "waited",
  "waiting",
  "wanted",
  "written",
]);

const production = readSources("src").filter(({ isTest }) => !isTest);
const exportedTypes = production.flatMap(({ path, text }) =>
  [...text.matchAll(/^export (?:abstract )?(?:class|interface|type) (\w+)/gm)].map(([, name = ""]) => ({
    name,
    file: relative(ROOT, path),
  })),
);

test("every exported type has a unique name", () => {
  const files = Map.groupBy(exportedTypes, ({ name }) => name);
  const shared = [...files].filter(([, places]) => places.length > 1);
  expect(shared.map(([name, places]) => `${name}: ${places.map(({ file }) => file).join(", ")}`)).toEqual([]);
});

test("no exported type is a bare participle", () => {
  expect(exportedTypes.filter(({ name }) => PARTICIPLES.has(name.toLowerCase()))).toEqual([]);
});

test("no file is named by a bare participle", () => {
  const names = production.map(({ path }) => basename(path).replace(/\.ts$/, ""));
  expect(names.filter((name) => PARTICIPLES.has(name))).toEqual([]);
});

test("a file header stands above the imports", () => {
  const below = production.filter(({ text }) => {
    const firstImport = text.search(/^import /m);
    return firstImport >= 0 && !text.slice(0, firstImport).includes("/**");
  });
  expect(below.map(({ path }) => relative(ROOT, path))).toEqual([]);
});

describe("the length of functions", () => {
  const sources = ["src", "simulator", "console", "release"].flatMap((folder) => readSources(folder));
  const functions = sources
    .filter(({ isTest }) => !isTest)
    .flatMap(({ path, text }) =>
      measureFunctions(text).map((one) => ({ ...one, file: relative(ROOT, path) })),
    );
  const describeLong = (max: number) => (one: (typeof functions)[number]) =>
    one.lines > max ? [`${one.file}:${one.line} ${one.name}: ${one.lines} lines`] : [];

  test("functions are found, with their lengths", () => {
    expect(functions.length).toBeGreaterThan(5_000);
    const text = [
      "function open(",
      "  options: Options,",
      "): Connection {",
      "  let isOpen = true;",
      "  return {",
      "    close() {",
      "      isOpen = false;",
      "    },",
      "  };",
      "}",
    ].join("\n");
    expect(measureFunctions(text)).toEqual([
      { name: "open", line: 1, lines: 10, isClosureObject: true },
      { name: "close", line: 6, lines: 3, isClosureObject: false },
    ]);
  });

  test("no function is longer than 70 lines", () => {
    expect(functions.flatMap(describeLong(70))).toEqual([]);
  });

  test("no closure that acts as an object is longer than 60 lines", () => {
    expect(functions.filter(({ isClosureObject }) => isClosureObject).flatMap(describeLong(60))).toEqual([]);
  });
});
