import { expect, test } from "bun:test";
import { openCommandLine } from "./command-line.test-support.ts";

const { runOk, runFailing, json } = openCommandLine("registration: closed\n");

const BILLING = [
  "billing",
  "--scopes",
  "wallet.top_up,wallet.read",
  "--usd-per-call",
  "500",
  "--usd-per-day",
  "5000",
];

test("a service account is created with a token, listed, exported and deleted", async () => {
  const { secret } = await json(
    "service-accounts",
    "create",
    ...BILLING,
    "--expires",
    "2099-12-31",
    "--print-secret",
  );
  expect(secret).toStartWith("gws_");
  expect(await json("service-accounts", "list")).toEqual([
    {
      name: "billing",
      scopes: ["wallet.read", "wallet.top_up"],
      bounds: { usd_per_call: "500.00", usd_per_day: "5000.00" },
      expires: "2099-12-31T23:59:59.999Z",
      tokens: 1,
      used: null,
    },
  ]);
  const exported = await runOk("export");
  expect(exported).toContain('bounds: { usd_per_call: "500.00", usd_per_day: "5000.00" }');
  expect(exported).not.toContain(secret);
  expect(await runFailing("service-accounts", "create", ...BILLING)).toContain("already exists");
  await runOk("service-accounts", "delete", "billing");
  expect(await json("service-accounts", "list")).toEqual([]);
});

test("a new token ends the earlier ones after the overlap, and all can be revoked", async () => {
  await runOk("service-accounts", "create", "ci", "--scopes", "config.apply");
  await runOk("service-accounts", "token", "ci", "--overlap", "1h");
  expect((await json("service-accounts", "list"))[0].tokens).toBe(2);
  await runOk("service-accounts", "token", "ci", "--overlap", "0");
  expect((await json("service-accounts", "list"))[0].tokens).toBe(1);
  expect(await runOk("service-accounts", "revoke-tokens", "ci")).toContain("1 revoked");
  expect((await json("service-accounts", "list"))[0].tokens).toBe(0);
});

test("the rules of the file apply", async () => {
  expect(await runFailing("service-accounts", "create", "x", "--scopes", "wallet.top_up")).toContain(
    "bounds",
  );
  expect(await runFailing("service-accounts", "create", "x", "--scopes", "root")).toContain("not allowed");
  expect(await runFailing("service-accounts", "token", "x")).toContain("does not exist");
  expect(await runFailing("service-accounts", "token", "x", "--overlap", "99d")).toContain("--overlap");
});

test("a user is made an auditor and back", async () => {
  await runOk("users", "create", "ada@example.com", "--role", "auditor");
  expect((await json("users", "list"))[0].role).toBe("auditor");
  await runOk("users", "role", "ada@example.com", "user");
  expect((await json("users", "list"))[0].role).toBe("user");
  expect(await runFailing("users", "role", "ada@example.com", "root")).toContain("auditor");
});
