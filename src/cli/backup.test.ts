import { expect, test } from "bun:test";
import { copyFileSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openCommandLine } from "./command-line.test-support.ts";

const {
  folder,
  runOk: done,
  runFailing: refused,
  json,
} = openCommandLine('users: [{ email: ada@example.com, balance: "3.00" }]\n');

const ADA = ["--user", "ada@example.com"];

test("a backup of an open database is a complete database of that moment", async () => {
  const out = await done("backup", "copy.db");
  expect(out).toContain("master.key");
  expect(statSync(join(folder(), "copy.db")).mode & 0o777).toBe(0o600);
  await done("wallet", "top-up", ...ADA, "--usd", "1", "--reason", "later");

  mkdirSync(join(folder(), "restored"));
  copyFileSync(join(folder(), "copy.db"), join(folder(), "restored", "gateway.db"));
  copyFileSync(join(folder(), "data", "master.key"), join(folder(), "restored", "master.key"));
  const { balance } = await json("wallet", "show", ...ADA, "--data", "restored");
  expect(balance).toBe("3.00");
  await done("audit", "--data", "restored");
});

test("a backup never overwrites a file", async () => {
  writeFileSync(join(folder(), "copy.db"), "older");
  expect(await refused("backup", "copy.db")).toContain("already exists");
});

test("a backup into a missing folder fails with a message", async () => {
  expect(await refused("backup", "nowhere/copy.db")).toContain("does not exist");
});
