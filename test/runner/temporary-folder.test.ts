import { expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";

const SCRIPT = `
import { createMemoryFolder } from "./temporary-folder.ts";
console.log(createMemoryFolder());
process.stdin.on("end", () => process.exit()).resume();`;

test.each([
  ["ends", undefined],
  ["is interrupted", "SIGINT"],
] as const)("the folder in memory is deleted when the run %s", async (_, signal) => {
  const child = Bun.spawn([process.execPath, "-e", SCRIPT], {
    cwd: import.meta.dir,
    stdin: "pipe",
    stdout: "pipe",
  });
  const reader = child.stdout.getReader();
  const folder = new TextDecoder().decode((await reader.read()).value).trim();
  // Null on a machine without enough shared memory.
  const isCreated = folder !== "null";
  if (isCreated) expect(statSync(folder).isDirectory()).toBe(true);
  if (signal === undefined) child.stdin.end();
  else child.kill(signal);
  await child.exited;
  expect(existsSync(folder)).toBe(false);
});
