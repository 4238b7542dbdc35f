/**
 * How long each test file takes, so that the slowest start first. Every run records its times in a cache; a clone
 * without the cache begins with the checked-in times.
 */

import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Suite } from "./suites.ts";

const ROUNDED_TO_MS = 100;

const cachePath = (suite: Suite) => `node_modules/.cache/test-times/${suite}.json`;
const checkedInPath = (suite: Suite) => `test/runner/${suite}-times.json`;

/** Milliseconds by path, in the form of the runtime. */
interface TimesFile {
  readonly version: 1;
  readonly files: Readonly<Record<string, number>>;
}

/** With these flags the runtime reads the times of earlier runs and records those of this one. */
export function timingFlags(suite: Suite): string[] {
  const path = cachePath(suite);
  mkdirSync(dirname(path), { recursive: true });
  if (!existsSync(path) && existsSync(checkedInPath(suite))) copyFileSync(checkedInPath(suite), path);
  return [`--timings=${path}`, "--update-timings"];
}

/** The last times of these files. */
export function readTimes(suite: Suite, files: readonly string[]): Readonly<Record<string, number>> {
  if (!existsSync(cachePath(suite))) return {};
  const recorded: TimesFile = JSON.parse(readFileSync(cachePath(suite), "utf8"));
  return Object.fromEntries(files.map((file) => [file, recorded.files[file] ?? 0]));
}

/** Rounded, so that a later run changes few lines. */
export function writeCheckedInTimes(suite: Suite, files: readonly string[]): void {
  const rounded = Object.entries(readTimes(suite, files)).map(([file, ms]) => [
    file,
    Math.ceil(ms / ROUNDED_TO_MS) * ROUNDED_TO_MS,
  ]);
  const text: TimesFile = { version: 1, files: Object.fromEntries(rounded) };
  writeFileSync(checkedInPath(suite), `${JSON.stringify(text, null, 2)}\n`);
}
