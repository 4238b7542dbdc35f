/** Documents of the repository: their links resolve, the files that they name exist, and their facts are those of the code. */

import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import lastRun from "../bench/last-run.json";
import { type LastRun, withMeasuredTable } from "../bench/last-run.ts";
import { createHeadingId } from "../console/docs/markdown.ts";
import { buildOutline, type OutlineField, type OutlineValue } from "../src/config/reference/outline.ts";
import { gatewayFile } from "../src/config/schema/schema.ts";
import { INTERFACES } from "../src/records/interfaces.ts";
import { readCode } from "./architecture/prose.ts";
import { ROOT, readSources } from "./architecture/source-graph.ts";
import { listPages, readPage, withValues } from "./documentation/values.ts";

const SOURCE_FOLDERS = ["src", "simulator", "console", "test", "bench", "bin", "release"];

interface Document {
  readonly path: string;
  readonly text: string;
}

const readDocument = (path: string): Document => ({ path, text: readFileSync(join(ROOT, path), "utf8") });

const listDocuments = (folder: string): Document[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith(".md"))
    .map((name) => readDocument(join(folder, name)));

const internals = listDocuments("docs/internals");
const documents = [...listDocuments("."), ...listDocuments("docs"), ...internals];
const sourceFiles = SOURCE_FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => !path.includes("node_modules"))
    .map((path) => join("/", folder, path)),
);

test("every link of a document leads to an existing file and heading", () => {
  const broken = documents.flatMap(({ path, text }) =>
    [...text.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, href = ""]) => href)
      .filter((href) => !/^(?:https?|mailto):/.test(href) && !leadsSomewhere(path, href))
      .map((href) => `${path}: ${href}`),
  );
  expect(broken).toEqual([]);
});

test("every source file that ARCHITECTURE.md, CONTRIBUTING.md or docs/internals/ names exists", () => {
  const missing = [readDocument("ARCHITECTURE.md"), readDocument("CONTRIBUTING.md"), ...internals].flatMap(
    ({ path, text }) =>
      [...text.matchAll(/(?<![\w*-])(?:[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.tsx?\b/g)]
        .map(([name]) => name)
        .filter((name) => !sourceFiles.some((file) => file.endsWith(`/${name}`)))
        .map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

test("the contributors' pages stay short", () => {
  const long = [readDocument("ARCHITECTURE.md"), ...internals]
    .map(({ path, text }) => ({ path, lines: text.split("\n").length }))
    .filter(({ path, lines }) => lines > (path === "ARCHITECTURE.md" ? 300 : 120));
  expect(long).toEqual([]);
});

/** Five lines of 120 characters. */
const PARAGRAPH_CHARS_MAX = 600;

test("no paragraph is longer than five lines", () => {
  const long = [...documents, readDocument("console/README.md"), readDocument("simulator/README.md")].flatMap(
    ({ path, text }) =>
      text
        .replaceAll(/```.*?```|<!--.*?-->/gs, "")
        .split("\n")
        .filter((line) => line.length > PARAGRAPH_CHARS_MAX && !line.startsWith("|"))
        .map((line) => `${path}: ${line.slice(0, 80)}`),
  );
  expect(long).toEqual([]);
});

test("the numbers in documents are those of the code (npm run docs:values)", () => {
  expect(listPages().filter((path) => readPage(path) !== withValues(readPage(path)))).toEqual([]);
});

test("docs/performance.md has the budget and the last run (npm run docs:performance), on one screen", () => {
  const { text } = readDocument("docs/performance.md");
  expect(text).toBe(withMeasuredTable(text, lastRun as LastRun));
  expect(text.split("\n").length).toBeLessThan(70);
});

test("concepts and glossary name every interface", () => {
  const tables = [readDocument("docs/concepts.md"), readDocument("docs/glossary.md")];
  const missing = tables.flatMap(({ path, text }) =>
    INTERFACES.filter((name) => !text.includes(`\`${name}\``)).map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

test("no document lists a value as unsupported that gateway.yaml accepts", () => {
  const accepted = new Set(buildOutline(gatewayFile).flatMap(listWords));
  const listed = listDocuments("docs").flatMap(({ path, text }) =>
    text
      .split(/^(?=## )/m)
      .flatMap((section) =>
        /^## Not supported/.test(section) ? section : (section.match(UNSUPPORTED) ?? []),
      )
      .flatMap((place) => [...place.matchAll(/`(\w+)`/g)].map(([, word = ""]) => ({ path, word }))),
  );
  expect(accepted).toContain("anthropic");
  expect(listed.filter(({ word }) => accepted.has(word))).toEqual([]);
});

/** A line that says so. */
const UNSUPPORTED = /^.*\b(?:is|are) not supported\b.*$/gm;

function listWords({ value }: OutlineField): string[] {
  return listWordsOfValue(value);
}

function listWordsOfValue(value: OutlineValue): string[] {
  if (value.kind === "words") return [...value.words];
  if (value.kind === "map") return value.fields.flatMap(listWords);
  return value.kind === "list" || value.kind === "names" ? listWordsOfValue(value.of) : [];
}

test("every name that CONTRIBUTING.md recommends exists", () => {
  const code = readSources("src")
    .map(({ text }) => readCode(text))
    .join("\n");
  const [, rules = ""] = readDocument("CONTRIBUTING.md").text.split("Names in code:");
  const recommended = rules.split("\n").flatMap((line) => {
    const [, , , names = ""] = line.split("|");
    return [...names.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);
  });
  expect(recommended.length).toBeGreaterThan(8);
  expect(recommended.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
});

function leadsSomewhere(from: string, href: string): boolean {
  const [file = "", anchor] = href.split("#");
  const target = file === "" ? from : normalize(join(dirname(from), file));
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || !target.endsWith(".md") || listAnchors(target).has(anchor);
}

function listAnchors(path: string): ReadonlySet<string> {
  const taken = new Map<string, number>();
  const { text } = readDocument(path);
  const headings = [...text.replaceAll(/```.*?```/gs, "").matchAll(/^#{2,6} (.+)$/gm)];
  return new Set(headings.map(([, heading = ""]) => createHeadingId(heading.replaceAll("`", ""), taken)));
}
