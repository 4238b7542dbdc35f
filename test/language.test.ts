/** The language of the code: unique type names, nouns instead of participles, and a header above the imports. */

import { expect, test } from "bun:test";
import { basename, relative } from "node:path";
import { ROOT, readSources } from "./architecture/source-graph.ts";

/** Participles that say nothing about what a type or a file is. */
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

test("every exported type has a name of its own", () => {
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
