import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { ROOT, readSources, type SourceFile } from "../architecture/source-graph.ts";
import { findSuite, isEachEngine, listSuite, listTestFiles } from "./suites.ts";

const folder = mkdtempSync(join(tmpdir(), "model-gateway-suites-"));
afterAll(() => rmSync(folder, { recursive: true }));

function write(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(join(folder, "root-"));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

test("every test file of the project belongs to a command", () => {
  expect(listTestFiles(ROOT).filter((file) => findSuite(file) === null)).toEqual([]);
});

test("a test file in a folder that no command runs fails the run", () => {
  const root = write({ "src/a.test.ts": "", "test/forgotten/b.test.ts": "" });
  expect(() => listSuite("daily", root)).toThrow("No command runs these tests");
  expect(() => listSuite("daily", root)).toThrow("test/forgotten/b.test.ts");
});

test("a folder belongs to a suite, and the end of a name moves a file to the system suite", () => {
  const root = write({
    "src/a.test.ts": "",
    "src/a.ts": "",
    "src/deep/b.system.test.ts": "",
    "test/browser/c.test.ts": "",
    "test/release/d.test.ts": "",
    "test/clients/node_modules/e.test.ts": "",
  });
  expect(listSuite("daily", root)).toEqual(["src/a.test.ts"]);
  expect(listSuite("system", root)).toEqual(["src/deep/b.system.test.ts", "test/browser/c.test.ts"]);
  expect(listSuite("release", root)).toEqual(["test/release/d.test.ts"]);
});

test("a test of each engine runs in both suites", () => {
  const root = write({
    "src/a.test.ts": 'import { eachEngine } from "../test/support/each-engine.ts";',
    "src/b.test.ts": "",
  });
  expect(listSuite("daily", root)).toEqual(["src/a.test.ts", "src/b.test.ts"]);
  expect(listSuite("system", root)).toEqual(["src/a.test.ts"]);
});

test("a test of the system suite is not one of each engine, which would never run on SQLite", () => {
  const both = listTestFiles(ROOT).filter((file) => isEachEngine(readFileSync(join(ROOT, file), "utf8")));
  expect(both.filter((file) => findSuite(file) !== "daily")).toEqual([]);
});

/** What a daily test does not have: servers and clients that are installed separately. */
const SYSTEM_SUPPORT = ["postgres.ts", "postgres-server.ts", "redis.ts", "prometheus.ts", "standby.ts"];
const CLIENT_PACKAGES = /from "openai[/"]|client-event-parser|clients\/node_modules|\.\.\/clients[/"]/;

test("a daily test uses no server and no client that the system suite installs", () => {
  const sources = ["src", "simulator", "console", "release", "test"].flatMap((name) => readSources(name));
  const isNeeded = ({ path, text }: SourceFile) => {
    if (SYSTEM_SUPPORT.some((name) => path.endsWith(`test/support/${name}`))) return true;
    // The console's snippets import the SDK in the text that they show.
    return !/\/(console|runner)\//.test(path) && CLIENT_PACKAGES.test(text);
  };
  const users = new Set(sources.filter(isNeeded).map(({ path }) => path));
  for (let before = 0; before < users.size; ) {
    before = users.size;
    for (const { path, imports } of sources)
      if (!path.endsWith("test/support/each-engine.ts") && imports.some((to) => users.has(to)))
        users.add(path);
  }
  const files = [...users].map((path) => relative(ROOT, path));
  expect(files.filter((file) => file.endsWith(".test.ts") && findSuite(file) === "daily")).toEqual([]);
});
