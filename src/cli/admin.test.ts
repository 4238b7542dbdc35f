/** Changes made on the command line are in the audit log, and users who are locked out can get a link. */

import { expect, test } from "bun:test";
import { join } from "node:path";
import { secretDigest } from "../secrets/random-secret.ts";
import { type ChangeRow, listChanges } from "../store/audit-log/audit-log.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import { findLink } from "../store/identity/links.ts";
import { openCommandLine } from "./command-line.test-support.ts";

const {
  folder,
  run,
  runOk: done,
  runFailing: refused,
  json,
} = openCommandLine(`
models: [{ id: m, interfaces: [chat], price: { input: "1", output: "1" } }]
accounts: [{ name: sim, kind: simulator }]
groups: [{ name: default, models: [m], accounts: [sim] }]
plans: [{ name: pro, windows: [{ per: day, usd: "5" }] }]
users: [{ email: ada@example.com }]
`);

async function within<T>(work: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDb(`sqlite:${join(folder(), "data/gateway.db")}`);
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

const logged = (): Promise<ChangeRow[]> =>
  within(async (db) => (await listChanges(db, {}, { after: null, limit: 100 })).rows.toReversed());

test("every command that changes something is in the audit log, with its actor", async () => {
  const before = (await logged()).length;
  await done("keys", "create", "--name", "ci", "--group", "default", "--user", "ada@example.com");
  await done("wallet", "top-up", "--user", "ada@example.com", "--usd", "5", "--idempotency-key", "once");
  await done("wallet", "top-up", "--user", "ada@example.com", "--usd", "5", "--idempotency-key", "once");
  const batch = await json("codes", "create", "--usd", "1", "--batch", "spring", "--print-secret");
  await done("codes", "redeem", batch.codes[0], "--user", "ada@example.com");
  const granted = await json("subscriptions", "grant", "--user", "ada@example.com", "--plan", "pro");
  await done("subscriptions", "cancel", granted.id);
  await done("master-key", "rotate");
  const rows = (await logged()).slice(before);
  expect(rows.map(({ action, target }) => `${action} ${target}`)).toEqual([
    "key.create key ci of ada@example.com",
    "wallet.top_up user ada@example.com",
    "codes.create codes spring",
    "code.redeem user ada@example.com",
    "subscription.grant subscription pro of ada@example.com",
    "subscription.cancel subscription pro of ada@example.com",
    "master_key.rotate master key",
  ]);
  expect(new Set(rows.map(({ actor }) => actor.kind))).toEqual(new Set(["cli"]));
  expect(JSON.stringify(rows)).not.toContain(batch.codes[0]);
  expect(JSON.stringify(rows)).not.toMatch(/gwk_/);
  expect(await done("audit")).toContain("Audit log check passed");
});

test("the audit reports a modified audit log", async () => {
  await within((db) => db.sql.script("UPDATE audit SET target = 'nothing' WHERE seq = 1"));
  const { code, out } = await run("audit");
  expect(code).toBe(1);
  expect(out).toContain(" of the audit log was modified after it was written.");
});

test("a sign-in link contains a valid token and is in the audit log", async () => {
  const url = "https://gateway.example.com/";
  const link = (
    await done("admin", "link", "--email", "ADA@example.com", "--url", url, "--print-secret")
  ).trim();
  expect(link).toMatch(/^https:\/\/gateway\.example\.com\/console\/link#\w{43}$/);
  const token = link.split("#")[1] ?? "";
  const found = await within((db) => findLink(db, secretDigest(token), Date.now()));
  expect(found).toMatchObject({ purpose: "sign_in", email: "ada@example.com" });
  expect((await logged()).at(-1)).toMatchObject({ action: "link.sign_in", target: "user ada@example.com" });
  expect(await refused("admin", "link", "--email", "nobody@example.com")).toContain("does not exist");
  expect(await refused("admin", "link", "--email", "ada@example.com", "--for", "fun")).toContain(
    "--for must be",
  );
});

test("a reset with --revoke-all revokes the user's keys and prints the link", async () => {
  await done("keys", "create", "--name", "taken", "--group", "default", "--user", "ada@example.com");
  await within((db) => db.sql`UPDATE app_user SET password_hash = 'x' WHERE email = 'ada@example.com'`);
  const asked = ["admin", "link", "--email", "ada@example.com", "--revoke-all"];
  expect(await refused(...asked)).toContain("--for reset");
  const out = await done(...asked, "--for", "reset", "--print-secret");
  expect(out).toMatch(/\/console\/reset#\w{43}/);
  const [user] = await within(
    (db) => db.sql`SELECT password_hash FROM app_user WHERE email = 'ada@example.com'`,
  );
  expect(user).toEqual({ password_hash: null });
  const left = await within((db) => db.sql`SELECT id FROM api_key WHERE status = 'active'`);
  expect(left).toEqual([]);
  const rows = await logged();
  expect(rows.map(({ action, target }) => `${action} ${target}`)).toContain(
    "key.revoke key taken of ada@example.com",
  );
  expect(rows.map(({ action }) => action)).toContain("user.reset_access");
});
