import { expect, test } from "bun:test";
import { join } from "node:path";
import { parse } from "yaml";
import { openCommandLine } from "../command-line.test-support.ts";
import { type Columns, type Rows, writeSqlite } from "./source-tables.test-support.ts";

const { folder, runOk, json } = openCommandLine("models: []\n");

const COLUMNS: Readonly<Record<string, Columns>> = {
  users: {
    id: "int",
    email: "text",
    password_hash: "text",
    role: "text",
    balance: "decimal",
    frozen_balance: "decimal",
    concurrency: "int",
    status: "text",
    rpm_limit: "int",
    deleted_at: "time",
  },
  groups: {
    id: "int",
    name: "text",
    rate_multiplier: "decimal",
    status: "text",
    platform: "text",
    subscription_type: "text",
    allow_image_generation: "bool",
    deleted_at: "time",
  },
  user_platform_quotas: {
    id: "int",
    user_id: "int",
    platform: "text",
    daily_limit_usd: "decimal",
    deleted_at: "time",
  },
  accounts: {
    id: "int",
    name: "text",
    platform: "text",
    type: "text",
    credentials: "json",
    concurrency: "int",
    priority: "int",
    status: "text",
    schedulable: "bool",
    deleted_at: "time",
  },
  usage_logs: { id: "int", created_at: "time", total_cost: "decimal", actual_cost: "decimal" },
  account_groups: { account_id: "int", group_id: "int", priority: "int" },
  api_keys: {
    id: "int",
    user_id: "int",
    key: "text",
    name: "text",
    group_id: "int",
    status: "text",
    ip_whitelist: "json",
    ip_blacklist: "json",
    quota: "decimal",
    expires_at: "time",
    rate_limit_5h: "decimal",
    rate_limit_1d: "decimal",
    rate_limit_7d: "decimal",
    usage_7d: "decimal",
    window_7d_start: "time",
    deleted_at: "time",
  },
};

function prepare(rows: Readonly<Record<string, Rows>>): readonly string[] {
  const content = Object.entries(COLUMNS).map(([table, columns]) => [
    table,
    { columns, rows: rows[table] ?? [] },
  ]);
  writeSqlite(join(folder(), "sub2api.db"), Object.fromEntries(content));
  return ["import", "sub2api", "--from", "sub2api.db"];
}

const secret = (letter: string) => `sk-${letter.repeat(60)}`;
const active = { status: "active" };

test("keys, users with exact balances, and accounts with API keys are imported; restricted keys are listed", async () => {
  const command = prepare({
    users: [
      { ...active, id: 1, email: "Ada@example.com", role: "admin", balance: "12.34567891", concurrency: 5 },
      { ...active, id: 2, email: "bob@example.com", balance: "0", frozen_balance: "3", concurrency: 0 },
      { id: 3, email: "off@example.com", balance: "9", concurrency: 1, status: "disabled" },
    ],
    groups: [
      { ...active, id: 1, name: "claude", rate_multiplier: "1.5", platform: "anthropic" },
      {
        ...active,
        id: 2,
        name: "plan",
        rate_multiplier: "1",
        platform: "openai",
        subscription_type: "subscription",
      },
    ],
    accounts: [
      {
        ...active,
        id: 1,
        name: "console",
        platform: "anthropic",
        type: "apikey",
        credentials: {
          api_key: "sk-ant-upstream",
          model_mapping: { "claude-sonnet-4-5": "claude-sonnet-4-5" },
        },
        concurrency: 8,
        priority: 50,
      },
      {
        ...active,
        id: 2,
        name: "max",
        platform: "anthropic",
        type: "oauth",
        credentials: { access_token: "t" },
      },
    ],
    account_groups: [
      { account_id: 1, group_id: 1, priority: 1 },
      { account_id: 2, group_id: 1, priority: 1 },
    ],
    usage_logs: [
      { id: 1, created_at: new Date("2026-10-05T00:00:00Z"), total_cost: "2", actual_cost: "1.25" },
      { id: 2, created_at: new Date("2026-10-06T00:00:00Z"), total_cost: "2", actual_cost: "0.25" },
    ],
    api_keys: [
      {
        ...active,
        id: 1,
        user_id: 1,
        key: secret("a"),
        name: "laptop",
        group_id: 1,
        rate_limit_5h: "2.5",
        quota: "0",
      },
      { ...active, id: 2, user_id: 1, key: secret("b"), name: "quota", group_id: 1, quota: "5" },
      {
        ...active,
        id: 3,
        user_id: 1,
        key: secret("c"),
        name: "denied ips",
        group_id: 1,
        ip_blacklist: ["10.0.0.1"],
      },
      {
        ...active,
        id: 7,
        user_id: 1,
        key: secret("g"),
        name: "ips",
        group_id: 1,
        ip_whitelist: ["10.0.0.1", "10.1.0.0/16"],
      },
      { ...active, id: 4, user_id: 1, key: secret("d"), name: "plan", group_id: 2 },
      { ...active, id: 5, user_id: 3, key: secret("e"), name: "owner off", group_id: 1 },
      { id: 6, user_id: 1, key: secret("f"), name: "off", group_id: 1, status: "inactive" },
    ],
  });
  const report = await json(...command);
  const found = report.not_carried_over
    .map(({ subject, message }: never) => `${subject} ${message}`)
    .join("\n");
  for (const [name, reason] of Object.entries({
    quota: "quota of one key",
    "denied ips": "denied IP addresses",
    plan: "paid by subscriptions",
    "owner off": "its user or its group was not imported",
    off: "not active",
  }))
    expect(found).toMatch(new RegExp(`"${name}" not created: .*${reason}`));
  expect(found).toContain('account 2 "max" has no API key');
  expect(found).toContain("balance of bob@example.com the frozen $3.00 are not booked");
  expect(report.spent_by_month).toEqual([{ month: "2026-10", usd: "1.50" }]);
  expect(report.top_ups).toEqual([
    { email: "ada@example.com", usd: "12.34567891", order: "import-sub2api:1" },
  ]);
  const state = parse(await runOk("export"));
  expect(state.users[0]).toMatchObject({
    email: "ada@example.com",
    role: "user",
    limits: { concurrency: 5 },
  });
  expect(state.keys).toEqual([
    expect.objectContaining({
      name: "laptop",
      group: "claude",
      limits: { windows: [{ per: "5h", usd: "2.50" }] },
    }),
    expect.objectContaining({ name: "ips", request_policy: "only from 10.0.0.1, 10.1.0.0/16" }),
  ]);
  expect(state.request_policies).toEqual([
    { name: "only from 10.0.0.1, 10.1.0.0/16", networks: ["10.0.0.1", "10.1.0.0/16"] },
  ]);
  expect(state.groups[0]).toMatchObject({
    models: ["claude-sonnet-4-5"],
    billing: { charge: "balance", multiplier: "1.50" },
  });
  expect(state.accounts).toEqual([
    expect.objectContaining({ name: "console 1", kind: "anthropic", limits: { concurrency: 8 } }),
  ]);
  expect(await json(...command)).toMatchObject({ changes: [], top_ups: [] });
});

test("what sub2api denies stays denied: platforms, images, empty lists, used-up limits, paused accounts", async () => {
  const day = 86_400_000;
  const mapping = { "gpt-4o": "gpt-4o", "gpt-image-1": "gpt-image-1" };
  const account = { ...active, platform: "openai", type: "apikey", concurrency: 1, priority: 1 };
  const credentials = { api_key: "sk-upstream", model_mapping: mapping };
  const key = (id: number, fields: object) => {
    return { ...active, id, user_id: 1, key: secret("abcdefg"[id] ?? ""), group_id: 1, ...fields };
  };
  const limited = { rate_limit_7d: "5", usage_7d: "5" };
  const command = prepare({
    users: [1, 2, 3].map((id) => {
      return { ...active, id, email: `user${id}@example.com`, balance: "1", concurrency: 1 };
    }),
    user_platform_quotas: [
      { id: 1, user_id: 2, platform: "openai", daily_limit_usd: "0" },
      { id: 2, user_id: 3, platform: "openai", daily_limit_usd: "0", deleted_at: new Date() },
    ],
    groups: [
      { ...active, id: 1, name: "text", rate_multiplier: "1", platform: "openai" },
      {
        ...active,
        id: 2,
        name: "all",
        rate_multiplier: "1",
        platform: "openai",
        allow_image_generation: true,
      },
    ],
    accounts: [
      { ...account, id: 1, name: "open", credentials, schedulable: true },
      { ...account, id: 2, name: "paused", credentials, schedulable: false },
    ],
    account_groups: [1, 2].map((group) => ({ account_id: 1, group_id: group, priority: 1 })),
    api_keys: [
      key(1, { name: "denied platform", user_id: 2 }),
      key(2, { name: "allowed again", user_id: 3 }),
      key(3, { name: "empty list", ip_whitelist: [" "] }),
      key(4, { name: "used up", ...limited, window_7d_start: new Date(Date.now() - 2 * day) }),
      key(5, { name: "past window", ...limited, window_7d_start: new Date(Date.now() - 8 * day) }),
    ],
  });
  const { not_carried_over: report } = await json(...command);
  const found = report.map(({ subject, message }: never) => `${subject} ${message}`).join("\n");
  expect(found).toMatch(/"denied platform" not created: a quota of its user/);
  expect(found).toMatch(/"empty list" not created: .*no network/);
  expect(found).toMatch(/"used up" not created: one of its limits in USD is used up/);
  const { keys, groups, accounts } = parse(await runOk("export"));
  expect(keys.map(({ name }: never) => name)).toEqual(["allowed again", "past window"]);
  expect(groups.map(({ models }: never) => models)).toEqual([["gpt-4o"], ["gpt-4o", "gpt-image-1"]]);
  expect(accounts).toMatchObject([{ name: "open 1" }, { name: "paused 2", enabled: false }]);
});
