/** `selftest` exercises every worker thread of the program, and `upgrade-check` reports what a start would change. */

import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { runCommand } from "../../test/support/gateway-process.ts";
import { buildNextVersion } from "../../test/support/next-version.ts";
import { openDb } from "../store/engine/db.ts";
import { migrate, readUpgradeImpact } from "../store/engine/migrate.ts";
import { MIGRATIONS, SCHEMA_KNOWN } from "../store/migrations/index.ts";
import { openCommandLine } from "./command-line.test-support.ts";
import { SELF_CHECKS } from "./self-checks.ts";

const SRC = join(import.meta.dir, "..");
const cli = openCommandLine();

const workers = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.includes(".test"))
  .flatMap((file) => [
    ...readFileSync(join(SRC, file), "utf8").matchAll(/new Worker\(new URL\("([^"]+)", import\.meta\.url\)/g),
  ])
  .map(([, path = ""]) => basename(path));

test("every worker thread of the program has a check", () => {
  expect(workers.length).toBeGreaterThan(5);
  expect(SELF_CHECKS.flatMap(({ worker }) => worker ?? []).toSorted()).toEqual(workers.toSorted());
});

test("worker files have unique names, because an executable has all of them in one folder", () => {
  expect(new Set(workers).size).toBe(workers.length);
});

test("selftest passes each check except for pages that are not built", async () => {
  const { out } = await cli.run("selftest", "--json");
  const { checks } = JSON.parse(out);
  expect(checks.map(({ check }: { check: string }) => check)).toEqual(SELF_CHECKS.map(({ name }) => name));
  expect(checks.filter(({ ok, check }: { ok: boolean; check: string }) => !ok && check !== "pages")).toEqual(
    [],
  );
  expect(existsSync(join(cli.folder(), "data"))).toBe(false);
});

test("doctor --live exits with 1 while no server answers", async () => {
  const { code, out } = await cli.run("doctor", "--live", "--data", "nothing");
  expect(code).toBe(1);
  expect(out).toContain("No server answers for");
});

test("upgrade-check reports that a database of this version is not changed", async () => {
  await Bun.write(join(cli.folder(), "gateway.yaml"), "models: []\n");
  await cli.runOk("apply", "gateway.yaml");
  expect(await cli.json("upgrade-check")).toMatchObject({
    schema: { present: SCHEMA_KNOWN, needed: SCHEMA_KNOWN },
    rollback: "possible",
  });
});

test("upgrade-check shows the pending migrations, measures them on a copy, and changes nothing", async () => {
  await Bun.$`mkdir ${join(cli.folder(), "data")}`;
  const file = join(cli.folder(), "data", "gateway.db");
  const store = await openDb(`sqlite:${file}`);
  await migrate(store);
  await store.close();
  const next = buildNextVersion({ kind: "offline", locks: ["usage_row"], takes: "Rows are rewritten." });
  const run = (...args: string[]) =>
    runCommand(["upgrade-check", ...args], { folder: cli.folder(), program: next.program });
  const trial = await run("--trial", "--json");
  expect(JSON.parse(trial.output)).toMatchObject({
    schema: { present: SCHEMA_KNOWN, needed: next.schema },
    notes: [expect.stringContaining("rewritten")],
    trial_seconds: expect.any(Number),
    needs_stop: true,
    rollback: "needs_backup",
  });
  expect((await run()).output).toContain("To go back you need a backup");
  next.remove();
  const after = new Database(file, { readonly: true });
  expect(after.query("SELECT MAX(version) AS version FROM migration").get()).toEqual({
    version: SCHEMA_KNOWN,
  });
  after.close();
  expect(readdirSync(join(cli.folder(), "data")).filter((name) => name.includes("trial"))).toEqual([]);
});

test("an upgrade can be undone if its migrations only add", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  const version = SCHEMA_KNOWN + 1;
  const added = { version, name: "added", sql: "" };
  expect(await readUpgradeImpact(db)).toEqual({ isReversible: true, needsStop: false });
  expect(await readUpgradeImpact(db, [...MIGRATIONS, added])).toEqual({
    isReversible: true,
    needsStop: false,
  });
  const removed = { ...added, phase: { kind: "contract", oldestReader: version } } as const;
  expect(await readUpgradeImpact(db, [...MIGRATIONS, removed])).toMatchObject({ isReversible: false });
  const rewritten = { ...added, phase: { kind: "offline", locks: [] } } as const;
  expect(await readUpgradeImpact(db, [...MIGRATIONS, rewritten])).toEqual({
    isReversible: false,
    needsStop: true,
  });
  await db.close();
});

test("upgrade-check rejects a folder without an installation and creates nothing", async () => {
  expect(await cli.runFailing("upgrade-check", "--data", "nothing")).toContain("No installation exists in");
  expect(existsSync(join(cli.folder(), "nothing"))).toBe(false);
});
