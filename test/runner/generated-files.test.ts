import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "../architecture/source-graph.ts";
import { findStaleFiles, GENERATORS, type Generator } from "./generated-files.ts";

const root = mkdtempSync(join(tmpdir(), "model-gateway-generated-"));
afterAll(() => rmSync(root, { recursive: true }));

test("a file that is missing or differs is named with the command that writes it", () => {
  writeFileSync(join(root, "good"), "1");
  writeFileSync(join(root, "stale"), "1");
  const generators: Generator[] = [
    { command: "npm run a", build: (read) => ({ good: read("good"), stale: "2" }) },
    { command: "npm run b", build: () => ({ missing: "" }) },
  ];
  expect(findStaleFiles(generators, root)).toEqual([
    "stale is out of date. Run: npm run a",
    "missing is out of date. Run: npm run b",
  ]);
});

test("every generated file of the project is up to date", () => {
  expect(findStaleFiles(GENERATORS, ROOT)).toEqual([]);
});

test("every command that generates files exists, and CONTRIBUTING.md names it", () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const contributing = readFileSync(join(ROOT, "CONTRIBUTING.md"), "utf8");
  for (const { command } of GENERATORS) {
    expect(scripts).toHaveProperty([command.replace("npm run ", "")]);
    expect(contributing).toContain(command);
  }
});

test("every command of the project that writes documents or files of deploy/ is checked", () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const writing = Object.keys(scripts).filter((name) => /^(?:docs|deploy):/.test(name));
  expect(GENERATORS.map(({ command }) => command.replace("npm run ", "")).sort()).toEqual(writing.sort());
});
