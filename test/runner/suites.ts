/** Which command runs a test file. Its folder decides, and in a folder of the daily suite the end of its name. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * - `daily`: `npm test`. Needs nothing but the runtime; the database is SQLite.
 * - `system`: `npm run test:system`. Needs PostgreSQL, Valkey, a browser, real clients, other programs, or minutes.
 * - `release`: `npm run test:release`. Builds and installs a release.
 */
export type Suite = "daily" | "system" | "release";

const FOLDERS: Readonly<Record<string, Suite>> = {
  console: "daily",
  release: "daily",
  simulator: "daily",
  src: "daily",
  "test/abuse": "system",
  "test/api": "daily",
  "test/architecture": "daily",
  "test/architecture.test.ts": "daily",
  "test/browser": "system",
  "test/cloud": "daily",
  "test/codex": "system",
  "test/compliance": "system",
  "test/console-api": "daily",
  "test/dispatch": "daily",
  "test/documentation.test.ts": "daily",
  "test/fallback": "daily",
  "test/faults": "daily",
  "test/gemini": "daily",
  "test/http": "daily",
  "test/language.test.ts": "daily",
  "test/matrix": "system",
  "test/messages": "daily",
  "test/money": "daily",
  "test/operations": "system",
  "test/release": "release",
  "test/runner": "daily",
  "test/scim": "daily",
  "test/sdk": "system",
  "test/sign-in": "daily",
  "test/streams": "daily",
  "test/translation": "daily",
  "test/vendors": "daily",
  "test/websocket": "daily",
};

const SYSTEM_SUFFIX = ".system.test.ts";
const TEST_FILE = /\.test\.tsx?$/;
const NOT_SOURCES = new Set(["node_modules", "dist", "data", ".git"]);

/** Null if no command runs the file. */
export function findSuite(file: string): Suite | null {
  const folder = Object.keys(FOLDERS).find((path) => file === path || file.startsWith(`${path}/`));
  if (folder === undefined) return null;
  return file.endsWith(SYSTEM_SUFFIX) ? "system" : (FOLDERS[folder] ?? null);
}

/** Tests of both engines: the daily suite runs them on SQLite, and the system suite on PostgreSQL. */
export function isEachEngine(text: string): boolean {
  return text.includes('/support/each-engine.ts"');
}

/** The files of a suite, by path from the root of the project. Fails if a test file belongs to no suite. */
export function listSuite(suite: Suite, root: string): string[] {
  const files = listTestFiles(root);
  const unassigned = files.filter((file) => findSuite(file) === null);
  if (unassigned.length > 0)
    throw new Error(
      `No command runs these tests. Add their folder to test/runner/suites.ts: ${unassigned.join(", ")}`,
    );
  return files.filter((file) => {
    const own = findSuite(file);
    if (own === suite) return true;
    return suite === "system" && own === "daily" && isEachEngine(readFileSync(join(root, file), "utf8"));
  });
}

export function listTestFiles(root: string, folder = ""): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !NOT_SOURCES.has(name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return listTestFiles(root, path);
      return TEST_FILE.test(path) ? [path] : [];
    })
    .sort();
}
