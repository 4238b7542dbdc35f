/**
 * After a failed sync the kernel may have dropped the dirty pages and report success the next time. Content whose sync
 * has failed must therefore be written again, to another file, before a sync may succeed.
 */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listOrphanedJournals } from "../../src/billing/journal/orphaned-journals.ts";

setDefaultTimeout(60_000);

let dir = "";

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "gateway-sync-"));
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Every `fdatasync` of these files fails. Returns the output of the child process. */
async function run(what: "journal" | "store", failing: readonly string[]) {
  const trace = join(dir, "trace");
  const script = join(import.meta.dir, "../support/sync-failure-child.ts");
  const paths = failing.flatMap((name) => ["-P", join(dir, name)]);
  const child = Bun.spawn(
    [
      "strace",
      ...["-f", "-y", "-qq", "-o", trace, ...paths],
      ...["-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"],
      ...[process.execPath, script, what, dir],
    ],
    { stdout: "pipe", stderr: "inherit" },
  );
  const output = (await new Response(child.stdout).text()).trim().split("\n");
  expect(await child.exited).toBe(0);
  return output;
}

test("a journal segment whose sync failed is written to a new file before a sync succeeds", async () => {
  const name = "journal-inc_1.1.jsonl";
  expect(await run("journal", [name])).toEqual(["failed", "ok", "ok", "new file"]);
  const [left] = listOrphanedJournals(dir, () => false);
  expect(left?.open).toHaveLength(12);
  expect(left).toMatchObject({ torn: 0, unreadable: 0, damaged: [] });
  expect(readdirSync(dir).filter((one) => one.endsWith(".new"))).toEqual([]);
});

test("the journal does not report success while the new file cannot be synced either", async () => {
  const name = "journal-inc_1.1.jsonl";
  const output = await run("journal", [name, `${name}.new`]);
  expect(output).toEqual(["failed", "failed", "failed", "same file"]);
  expect(listOrphanedJournals(dir, () => false)[0]?.open).toHaveLength(12);
});

test("a database whose WAL could not be synced is checkpointed, and the WAL is emptied", async () => {
  const output = await run("store", ["store.db-wal"]);
  // The WAL that is emptied is still the file whose sync fails here.
  expect(output.filter((line) => !line.startsWith("log"))).toEqual(["failed", "failed", "failed"]);
  const sizes = output.filter((line) => line.startsWith("log")).map((line) => Number(line.slice(4)));
  expect(sizes[0]).toBeGreaterThan(0);
  expect(sizes.slice(1)).toEqual([0, 0]);
});
