/** `users` and `tokens`: people and their tokens, without a browser. */

import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openDb } from "../store/engine/db.ts";
import { openCommandLine } from "./command-line.test-support.ts";

const { folder, runOk, runFailing, json } = openCommandLine(`
models: [{ id: m, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: private, access: members, interfaces: [chat], models: [m], accounts: [sim] }]
users: [{ email: root@example.com, role: admin }, { email: ada@example.com, groups: [private] }]
`);

test("a user is created, becomes an administrator, and is disabled and enabled with its groups", async () => {
  await runOk("users", "create", "Bob@example.com", "--groups", "private");
  expect(await runFailing("users", "create", "bob@example.com")).toContain("already exists");
  expect(await runFailing("users", "create", "eve@example.com", "--groups", "none")).toContain("none");
  await runOk("users", "role", "bob@example.com", "admin");
  await runOk("users", "disable", "bob@example.com");
  expect((await json("users", "list"))[2]).toMatchObject({
    role: "admin",
    status: "disabled",
    has_password: false,
    groups: ["private"],
  });
  await runOk("users", "enable", "bob@example.com");
  await runOk("users", "disable", "root@example.com");
  expect(await runFailing("users", "disable", "bob@example.com")).toContain("only administrator");
  expect(await runFailing("users", "role", "bob@example.com", "user")).toContain("only administrator");
  expect(await runFailing("users", "role", "bob@example.com", "king")).toContain("user, auditor or admin");
  expect(await runOk("users", "list")).toContain("bob@example.com");
});

test("a token is written to its file alone, listed without its secret, and revoked", async () => {
  const created = ["tokens", "create", "--name", "prometheus", "--user", "root@example.com"];
  await runOk(...created, "--secret-file", "token");
  const secret = readFileSync(join(folder(), "token"), "utf8").trim();
  expect(secret).toMatch(/^gwp_\w+$/);
  const [token] = await json("tokens", "list", "--user", "root@example.com");
  expect(token).toMatchObject({ name: "prometheus", scope: "read", last4: secret.slice(-4), used: null });
  expect(await runOk("tokens", "list")).not.toContain(secret);
  expect(
    await runFailing("tokens", "create", "--name", "x", "--user", "ada@example.com", "--scope", "admin"),
  ).toContain("Only administrators");
  expect(await runFailing("tokens", "revoke", secret)).not.toContain(secret);
  expect(await runFailing("tokens", "create", "--name", "x", "--user", "eve@example.com")).toContain(
    "users create eve@example.com",
  );
  await runOk("tokens", "revoke", token.id);
  expect(await json("tokens", "list")).toEqual([]);
  const db = await openDb(`sqlite:${join(folder(), "data/gateway.db")}`, { access: "read" });
  const actions = (await db.sql`SELECT action FROM audit ORDER BY seq DESC LIMIT 2`).map((row) => row.action);
  await db.close();
  expect(actions).toEqual(["token.revoke", "token.create"]);
});

test("directory restore changes nothing if a provider has not lost many people at once", async () => {
  expect(await json("directory", "restore", "corp")).toEqual({ provider: "corp", people: 0, keys: 0 });
  expect(await runFailing("directory", "restore")).toContain("PROVIDER");
});
