/** Documents of the repository: their links resolve, and the source files that they name exist. */

import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { createHeadingId } from "../console/docs/markdown.ts";
import { ROOT } from "./architecture/source-graph.ts";

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
        .replaceAll(/```.*?```/gs, "")
        .split("\n")
        .filter((line) => line.length > PARAGRAPH_CHARS_MAX && !line.startsWith("|"))
        .map((line) => `${path}: ${line.slice(0, 80)}`),
  );
  expect(long).toEqual([]);
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
