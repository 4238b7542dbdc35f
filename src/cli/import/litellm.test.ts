import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { createCipheriv, createHash, hkdfSync } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { hashImported, importedDigest } from "../../secrets/api-key.ts";
import { openCommandLine } from "../command-line.test-support.ts";
import { type LitellmRows, litellm, litellmFormerSecret, litellmKey } from "./litellm.test-support.ts";
import { decryptStored, openBox } from "./litellm-cipher.ts";
import { writeSqlite } from "./source-tables.test-support.ts";

const { folder, runOk, runFailing, json } = openCommandLine("models: []\n");

const CONFIG = `
model_list:
  - model_name: gpt-4o
    litellm_params: { model: openai/gpt-4o, api_key: sk-upstream-1 }
  - model_name: fast
    litellm_params: { model: openai/gpt-4o-mini, api_key: sk-upstream-1 }
    model_info: { access_groups: [cheap] }
  - model_name: sonnet
    litellm_params: { model: anthropic/claude-sonnet-4-5, api_key: os.environ/NOT_SET }
  - model_name: rerank
    litellm_params: { model: cohere/rerank-v3, api_key: x }
`;

const NOW = new Date();
const days = (count: number) => new Date(NOW.getTime() + count * 86_400_000);

function prepare(rows: LitellmRows): readonly string[] {
  writeSqlite(join(folder(), "litellm.db"), litellm(rows));
  writeFileSync(join(folder(), "config.yaml"), CONFIG);
  return ["import", "litellm", "--from", "litellm.db", "--config", "config.yaml"];
}

const TEAM = { team_id: "t1", team_alias: "research", models: ["gpt-4o", "fast"], blocked: false };

/** The reasons of the keys that were not created, by alias. */
function reasons(report: { not_carried_over: { subject: string; message: string }[] }) {
  return Object.fromEntries(
    report.not_carried_over.flatMap(({ subject, message }) => {
      const alias = /"(.*)"/.exec(subject)?.[1];
      return alias === undefined ? [] : [[alias, message]];
    }),
  );
}

test("teams become groups, and keys keep their model lists, limits, budgets and expiry", async () => {
  const command = prepare({
    teams: [
      { ...TEAM, rpm_limit: 500 },
      { team_id: "t2", team_alias: "open", models: [], blocked: false },
    ],
    users: [
      { user_id: "u1", user_email: "Ada@Example.com", user_role: "proxy_admin", models: [], tpm_limit: 9000 },
    ],
    budgets: [{ budget_id: "b1", max_budget: 4, budget_duration: "12h", rpm_limit: 7 }],
    keys: [
      litellmKey("sk-team", { key_alias: "team", team_id: "t1" }),
      litellmKey("sk-subset", { key_alias: "subset of a limited team", team_id: "t1", models: ["gpt-4o"] }),
      litellmKey("sk-limited", {
        key_alias: "limited",
        team_id: "t2",
        user_id: "u1",
        models: ["cheap"],
        rpm_limit: 10,
        budget_id: "b1",
        max_parallel_requests: 2,
        expires: days(30),
      }),
      litellmKey("sk-plain", { key_alias: "plain", max_budget: 2.5, budget_duration: "30d" }),
    ],
  });
  await runOk(...command);
  const state = parse(await runOk("export"));
  expect(state.users).toEqual([
    expect.objectContaining({ email: "ada@example.com", role: "user", limits: { tpm: 9000 } }),
  ]);
  const groups = Object.fromEntries(state.groups.map((group: { name: string }) => [group.name, group]));
  expect(groups.research).toMatchObject({
    models: ["gpt-4o", "fast"],
    group_limits: { rpm: 500 },
    access: "members",
  });
  expect(groups.open.models).toEqual(["gpt-4o", "fast", "sonnet"]);
  expect(state.request_policies).toEqual([
    { name: "only fast", models: ["fast"] },
    { name: "only gpt-4o", models: ["gpt-4o"] },
  ]);
  const keys = Object.fromEntries(state.keys.map((key: { name: string }) => [key.name, key]));
  expect(keys.team.group).toBe("research");
  expect(keys["subset of a limited team"]).toMatchObject({
    group: "research",
    request_policy: "only gpt-4o",
  });
  expect(keys.limited).toMatchObject({
    user: "ada@example.com",
    group: "open",
    request_policy: "only fast",
    expires: days(30).toISOString(),
    limits: { concurrency: 2, rpm: 7, windows: [{ per: "1d", usd: "4.00" }] },
  });
  expect(keys.plain).toMatchObject({ group: "imported", limits: { windows: [{ per: "30d", usd: "2.50" }] } });
  expect(
    state.accounts.map(
      ({ kind, enabled = true, models }: { kind: string; enabled?: boolean; models: object }) => [
        kind,
        enabled,
        models,
      ],
    ),
  ).toEqual([
    ["openai", true, { "gpt-4o": "gpt-4o", fast: "gpt-4o-mini" }],
    ["anthropic", false, { sonnet: "claude-sonnet-4-5" }],
  ]);
});

test("a key is not created if a restriction has no counterpart", async () => {
  const command = prepare({
    teams: [
      { ...TEAM, max_budget: 100, budget_duration: "30d", spend: 1 },
      { team_id: "t2", team_alias: "lifetime", models: [], blocked: false, max_budget: 100, spend: 1 },
      { team_id: "t3", team_alias: "stopped", models: [], blocked: true },
    ],
    users: [{ user_id: "u1", user_email: null, models: [] }],
    budgets: [{ budget_id: "b1", max_budget: 4, budget_duration: "7d" }],
    organizations: [{ organization_id: "o1", organization_alias: "org", budget_id: "b1", models: [] }],
    memberships: [{ user_id: "u2", team_id: "t1", budget_id: "b1" }],
    keys: [
      litellmKey("b", { key_alias: "lifetime budget of the team", team_id: "t2" }),
      litellmKey("c", { key_alias: "blocked team", team_id: "t3" }),
      litellmKey("d", { key_alias: "no address", user_id: "u1" }),
      litellmKey("e", { key_alias: "organization", organization_id: "o1" }),
      litellmKey("f", { key_alias: "member budget", team_id: "t1", user_id: "u2" }),
      litellmKey("g", { key_alias: "blocked", blocked: true }),
      litellmKey("h", { key_alias: "expired", expires: days(-1) }),
      litellmKey("i", { key_alias: "lifetime budget", max_budget: 5 }),
      litellmKey("j", { key_alias: "used up", max_budget: 5, spend: 5, budget_duration: "7d" }),
      litellmKey("k", { key_alias: "model budget", model_max_budget: { "gpt-4o": { budget_limit: 1 } } }),
      litellmKey("l", { key_alias: "model rate", metadata: { model_rpm_limit: { "gpt-4o": 1 } } }),
      litellmKey("m", { key_alias: "routes", allowed_routes: ["/v1/embeddings"] }),
      litellmKey("n", { key_alias: "unknown models", models: ["mistral-large"] }),
      litellmKey("o", { key_alias: "object permission", object_permission_id: "p1" }),
      litellmKey("p", { key_alias: "month", max_budget: 5, budget_duration: "1mo" }),
      { token: "sk-plain-secret-in-the-table", models: [], key_alias: "plain" },
    ],
  });
  const report = await json(...command);
  expect(report.changes.filter(({ what }: { what: string }) => what.startsWith("key "))).toEqual([]);
  expect(reasons(report)).toEqual({
    "lifetime budget of the team": expect.stringContaining("without a duration"),
    "blocked team": expect.stringContaining("blocked"),
    "no address": expect.stringContaining("no e-mail address"),
    organization: expect.stringContaining("organization"),
    "member budget": expect.stringContaining("one person in a team"),
    blocked: expect.stringContaining("blocked"),
    expired: expect.stringContaining("expired"),
    "lifetime budget": expect.stringContaining("without a duration"),
    "used up": expect.stringContaining("used up"),
    "model budget": expect.stringContaining("single models"),
    "model rate": expect.stringContaining("metadata.model_rpm_limit"),
    routes: expect.stringContaining("routes"),
    "unknown models": expect.stringContaining("none of its models"),
    "object permission": expect.stringContaining("object_permission_id"),
    month: expect.stringContaining("1mo"),
    plain: expect.stringContaining("SHA-256"),
  });
  expect(JSON.stringify(report)).not.toContain("sk-plain-secret");
  expect(JSON.stringify(report)).not.toContain("sk-upstream-1");
});

test("replaced secrets are imported while they work, at most five of a key, and once", async () => {
  const now = "sk-now";
  const ends = (secret: string, count: number) => litellmFormerSecret(secret, { now, until: days(count) });
  const command = prepare({
    teams: [TEAM],
    keys: [litellmKey(now, { key_alias: "rotated", team_id: "t1" })],
    formerSecrets: [ends("sk-ended", -1), ...Array.from({ length: 6 }, (_, i) => ends(`sk-${i}`, i + 1))],
  });
  const report = await json(...command);
  expect(reasons(report)).toEqual({ rotated: expect.stringContaining("1 of its replaced secrets") });
  const stored = new Database(join(folder(), "data/gateway.db"), { readonly: true })
    .query("SELECT digest, works_until_ms AS until FROM former_secret ORDER BY works_until_ms")
    .all();
  const kept = Array.from({ length: 5 }, (_, i) => i + 1);
  expect(stored).toEqual(
    kept.map((i) => ({ digest: importedDigest(hashImported(`sk-${i}`)), until: days(i + 1).getTime() })),
  );
  expect((await json(...command)).changes).toEqual([]);
});

test("what was spent in each month is reported, from the sums of days or from the log of requests", async () => {
  const requests = [
    { request_id: "r1", startTime: new Date("2026-09-30T23:59:59Z"), spend: 0.25 },
    { request_id: "r2", startTime: new Date("2026-10-01T00:00:00Z"), spend: 0.5 },
  ];
  const days = [
    { id: "d1", date: "2026-10-01", spend: 1.5 },
    { id: "d2", date: "2026-10-02", spend: 0.0000001 },
  ];
  expect((await json(...prepare({ requests }), "--dry-run")).spent_by_month).toEqual([
    { month: "2026-09", usd: "0.25" },
    { month: "2026-10", usd: "0.50" },
  ]);
  rmSync(join(folder(), "litellm.db"));
  expect((await json(...prepare({ requests, days }), "--dry-run")).spent_by_month).toEqual([
    { month: "2026-10", usd: "1.5000001" },
  ]);
});

test("a dry run changes no byte, and a second import changes nothing, not even what was changed here", async () => {
  const command = prepare({ teams: [TEAM], keys: [litellmKey("sk-1", { key_alias: "one", team_id: "t1" })] });
  const store = () => readFileSync(join(folder(), "data/gateway.db"));
  const before = store();
  expect(await runOk(...command, "--dry-run")).toContain("no changes were written");
  expect(store().equals(before)).toBe(true);
  await runOk(...command);
  const [key] = await json("keys", "list");
  await runOk("keys", "revoke", key.public_id ?? key.publicId ?? key.id);
  const after = store();
  const again = await json(...command);
  expect(again).toMatchObject({ changes: [], top_ups: [] });
  expect(store().equals(after)).toBe(true);
});

test("a key is not put into a group of this gateway that offers more", async () => {
  writeFileSync(
    join(folder(), "more.yaml"),
    "models: [{ id: other, interfaces: [chat] }]\ngroups: [{ name: research, models: [other] }]\n",
  );
  await runOk("apply", "more.yaml");
  const command = prepare({ teams: [TEAM], keys: [litellmKey("sk-1", { key_alias: "one", team_id: "t1" })] });
  expect(reasons(await json(...command)).one).toContain("offers other");
  await runOk(...command, "--prefix", "old-");
  const keys = parse(await runOk("export")).keys;
  expect(keys).toEqual([expect.objectContaining({ name: "one", group: "old-research" })]);
});

test("a team keeps its rights if its name or id is that of the group for keys without a team", async () => {
  const command = prepare({
    teams: [
      { ...TEAM, team_alias: "imported" },
      { ...TEAM, team_id: "imported", team_alias: "x".repeat(70), models: ["fast"] },
      { ...TEAM, team_id: "t3", team_alias: `${"x".repeat(70)}y`, models: ["sonnet"] },
    ],
    keys: [
      litellmKey("sk-1", { key_alias: "by name", team_id: "t1" }),
      litellmKey("sk-2", { key_alias: "by id", team_id: "imported" }),
      litellmKey("sk-3", { key_alias: "by start", team_id: "t3" }),
      litellmKey("sk-4", { key_alias: "no team" }),
    ],
  });
  await runOk(...command);
  const { keys, groups } = parse(await runOk("export"));
  const models = new Map(groups.map(({ name, models: offered }: never) => [name, offered]));
  expect(Object.fromEntries(keys.map(({ name, group }: never) => [name, models.get(group)]))).toEqual({
    "by name": ["gpt-4o", "fast"],
    "by id": ["fast"],
    "by start": ["sonnet"],
    "no team": ["gpt-4o", "fast", "sonnet"],
  });
});

test("groups whose names are the same after a prefix are not mixed up", async () => {
  const long = "x".repeat(63);
  const command = prepare({
    teams: [
      { ...TEAM, team_alias: `${long}a` },
      { ...TEAM, team_id: "t2", team_alias: `${long}b`, models: [] },
    ],
    keys: [litellmKey("sk-1", { key_alias: "one", team_id: "t1" })],
  });
  expect(reasons(await json(...command, "--prefix", "old-")).one).toContain("several groups of the source");
  await runOk(...command);
  expect(parse(await runOk("export")).keys).toMatchObject([{ group: `${long}a` }]);
});

test("users who share an address become one, with the stricter limits", async () => {
  const shared = { user_email: "team@example.com", models: [] };
  await runOk(
    ...prepare({
      users: [
        { ...shared, user_id: "u1", rpm_limit: 5 },
        { ...shared, user_id: "u2", rpm_limit: 9, tpm_limit: 100 },
        { ...shared, user_id: "u3" },
      ],
      keys: [litellmKey("sk-1", { key_alias: "one", user_id: "u1" })],
    }),
  );
  const { users } = parse(await runOk("export"));
  expect(users).toMatchObject([{ email: "team@example.com", limits: { rpm: 5, tpm: 100 } }]);
});

test("bad rows are reported with their id, and the others are imported", async () => {
  const command = prepare({
    teams: [TEAM, { team_id: "t9", team_alias: "broken", models: "not a list" }],
    keys: [
      litellmKey("sk-1", { key_alias: "one", team_id: "t1" }),
      litellmKey("sk-2", { key_alias: "two", expires: "soon" }),
      litellmKey("sk-3", { key_alias: "three", rpm_limit: "many" }),
      litellmKey("sk-4", { key_alias: "x".repeat(70_000) }),
    ],
  });
  const report = await json(...command);
  const found = report.not_carried_over
    .map(({ subject, message }: never) => `${subject} ${message}`)
    .join("\n");
  expect(found).toContain("LiteLLM_TeamTable t9 skipped: models is not JSON");
  expect(found).toContain("expires is not a time");
  expect(found).toContain("rpm_limit is not a whole number");
  expect(found).toContain("longer than");
  expect(parse(await runOk("export")).keys).toHaveLength(1);
});

test("a database of another program gives a clear error", async () => {
  writeSqlite(join(folder(), "litellm.db"), { users: { columns: { id: "int" }, rows: [] } });
  expect(await runFailing("import", "litellm", "--from", "litellm.db")).toContain(
    "The source has no table LiteLLM_TeamTable.",
  );
  expect(await runFailing("import", "litellm", "--from", "missing.db")).toContain("does not exist");
  expect(await runFailing("import", "other", "--from", "litellm.db")).toContain("SOURCE is one of");
  writeFileSync(join(folder(), "litellm.db"), "no database");
  expect(await runFailing("import", "litellm", "--from", "litellm.db")).toContain("cannot be read");
});

test("stored credentials are decrypted with the salt key, in every form that LiteLLM wrote", async () => {
  const seal = (value: string, prefix: "v2" | "v3") => {
    const key =
      prefix === "v2"
        ? createHash("sha256").update("salt").digest()
        : Buffer.from(hkdfSync("sha256", "salt", "", "litellm-at-rest-v3", 32));
    const nonce = Buffer.alloc(12, 7);
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    const sealed = Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
    return `${prefix}:gcm:${sealed.toString("base64url")}`;
  };
  for (const version of ["v2", "v3"] as const) {
    expect(decryptStored(seal("sk-upstream", version), "salt")).toBe("sk-upstream");
    expect(decryptStored(seal("sk-upstream", version), "other")).toBeNull();
  }
  const command = prepare({
    models: [
      {
        model_id: "m1",
        model_name: "stored",
        litellm_params: { model: seal("openai/gpt-4o", "v3"), api_key: seal("sk-stored-credential", "v3") },
        model_info: {},
      },
    ],
  });
  expect((await json(...command, "--dry-run")).not_carried_over).toContainEqual(
    expect.objectContaining({ subject: "model stored (m1)", message: expect.stringContaining("encrypted") }),
  );
  writeFileSync(join(folder(), "salt"), "salt\n");
  await runOk(...command, "--salt-key-file", "salt");
  expect(parse(await runOk("export")).accounts).toContainEqual(
    expect.objectContaining({ models: { stored: "gpt-4o" } }),
  );
  expect(await runOk("export")).not.toContain("sk-stored-credential");
});

test("NaCl's secret box is opened as its authors published it, and a changed byte is noticed", () => {
  const hex = (text: string) => Buffer.from(text, "hex");
  const key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
  const nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
  const sealed = hex(
    "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a" +
      "c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae" +
      "90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5",
  );
  expect(openBox(key, Buffer.concat([nonce, sealed]))?.toString("hex")).toBe(
    "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c6129" +
      "6cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde" +
      "048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705",
  );
  sealed[40] = (sealed[40] ?? 0) ^ 1;
  expect(openBox(key, Buffer.concat([nonce, sealed]))).toBeNull();
});
