/** Sources with hostile or odd rows: an import never joins two people, widens a key or fails as a whole. */

import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { openCommandLine } from "../command-line.test-support.ts";
import { type LitellmRows, litellm, litellmKey } from "./litellm.test-support.ts";
import { newApi, type QuotaRows, storedKey } from "./new-api.test-support.ts";
import { writeSqlite } from "./source-tables.test-support.ts";

const { folder, runOk, json } = openCommandLine("models: []\n");

interface Report {
  changes: { what: string }[];
  top_ups: unknown[];
  not_carried_over: { subject: string; message: string }[];
}

const found = (report: Report) =>
  report.not_carried_over.map(({ subject, message }) => `${subject} ${message}`).join("\n");

const CHANNEL = { id: 1, name: "c", key: "sk-a", models: "gpt-4o,gpt-4o-mini", group: "default" };

function prepareNewApi(rows: QuotaRows): readonly string[] {
  writeSqlite(join(folder(), "old.db"), newApi({ channels: [CHANNEL], ...rows }));
  return ["import", "new-api", "--from", "old.db"];
}

const CONFIG = `
general_settings: { allowed_ips: ["10.0.0.1", "10.0.0.2"] }
model_list:
  - { model_name: big, litellm_params: { model: openai/gpt-4o, api_key: sk-1 } }
  - { model_name: small, litellm_params: { model: openai/gpt-4o-mini, api_key: sk-1 } }
`;

function prepareLitellm(rows: LitellmRows): readonly string[] {
  writeSqlite(join(folder(), "litellm.db"), litellm(rows));
  writeFileSync(join(folder(), "config.yaml"), CONFIG);
  return ["import", "litellm", "--from", "litellm.db", "--config", "config.yaml"];
}

test("addresses that are made from names never join two people", async () => {
  const command = prepareNewApi({
    users: [
      { id: 1, username: "ada", email: "ada@corp.example" },
      { id: 2, username: "张三", quota: 500_000 },
      { id: 3, username: "李四", quota: 1_000_000 },
      { id: 4, username: "Ada", quota: 500_000 },
      { id: 5, username: "ADA@corp.example", quota: 500_000 },
      { id: 6, username: "bob", quota: 500_000 },
      { id: 7, username: "Bob", quota: 500_000 },
      { id: 8, username: "a b", quota: 500_000 },
    ],
    tokens: [
      { id: 1, user_id: 4, key: storedKey("a"), name: "of Ada" },
      { id: 2, user_id: 3, key: storedKey("b"), name: "of 李四" },
    ],
  });
  const report: Report = await json(...command, "--address-domain", "corp.example");
  expect(report.top_ups).toEqual([
    { email: "user-2@corp.example", usd: "1.00", order: "import-new-api:2" },
    { email: "user-3@corp.example", usd: "2.00", order: "import-new-api:3" },
    { email: "bob@corp.example", usd: "1.00", order: "import-new-api:6" },
    { email: "a-b-8@corp.example", usd: "1.00", order: "import-new-api:8" },
  ]);
  for (const user of ['4 "Ada"', '5 "ADA@corp.example"', '7 "Bob"'])
    expect(found(report)).toContain(`user ${user} the address made from the name belongs to another user`);
  expect(parse(await runOk("export")).keys).toEqual([
    expect.objectContaining({ name: "of 李四", user: "user-3@corp.example" }),
  ]);
});

test("equal secrets, huge amounts and texts for terminals are listed, and the rest is imported", async () => {
  const owner = { user_id: 1, group: "default" };
  const command = prepareNewApi({
    channels: [{ ...CHANNEL, models: "gpt-4o,\u001b[31mred" }],
    users: [{ id: 1, username: "ada", email: "ada@example.com", quota: "9223372036854775807" }],
    tokens: [
      { ...owner, id: 1, key: storedKey("a"), name: "first" },
      { ...owner, id: 2, key: `sk-${storedKey("a")}`, name: "second" },
      { ...owner, id: 3, key: storedKey("b"), name: `${"x".repeat(63)}😀` },
    ],
    logs: [1, 2].map((id) => ({ id, created_at: 1e9, type: 2, quota: "9223372036854775807" })),
  });
  const shown = await runOk(...command);
  expect(shown).not.toContain("\u001b");
  expect(shown).toContain('"first"  not created: another key of the source has the same secret.');
  expect(shown).toContain('"second"  not created: another key of the source has the same secret.');
  expect(shown).toContain("balance of ada@example.com  is above the maximum of a top-up");
  expect(shown).toContain("table logs  the costs of each month cannot be added up");
  expect(parse(await runOk("export")).keys).toEqual([
    expect.objectContaining({ name: "x".repeat(63), user: "ada@example.com" }),
  ]);
  expect(await json(...command)).toMatchObject({ changes: [], top_ups: [] });
});

test("LiteLLM: limits that cannot be read, and aliases that hide a model, prevent keys", async () => {
  const team = { models: [], blocked: false };
  const report: Report = await json(
    ...prepareLitellm({
      budgets: [{ budget_id: "odd", max_budget: 1, budget_duration: "1d", rpm_limit: "many" }],
      organizations: [{ organization_id: "o1", organization_alias: "o", budget_id: "gone", models: [] }],
      users: [{ user_id: "u1", user_email: "ada@example.com", models: [], tpm_limit: "9223372036854775807" }],
      teams: [
        { ...team, team_id: "t1", team_alias: "free tier", model_id: 1 },
        { ...team, team_id: "t2", team_alias: "plain", model_id: 2 },
      ],
      teamAliases: [
        { id: 1, aliases: { big: "small" } },
        { id: 2, aliases: { unknown: "small", big: "big" } },
      ],
      keys: [
        litellmKey("a", { key_alias: "odd budget", budget_id: "odd" }),
        litellmKey("b", { key_alias: "lost budget", budget_id: "gone" }),
        litellmKey("c", { key_alias: "lost budget of the organization", organization_id: "o1" }),
        litellmKey("d", { key_alias: "odd user", user_id: "u1" }),
        litellmKey("e", { key_alias: "alias", aliases: { big: "small" } }),
        litellmKey("f", { key_alias: "alias of the team", team_id: "t1" }),
        litellmKey("g", { key_alias: "harmless aliases", team_id: "t2" }),
      ],
    }),
  );
  const reasons = found(report);
  for (const name of ["odd budget", "lost budget", "lost budget of the organization", "odd user"])
    expect(reasons).toMatch(
      new RegExp(`"${name}" not created: .*(cannot be read|limits of an organization)`),
    );
  for (const name of ["alias", "alias of the team"])
    expect(reasons).toMatch(new RegExp(`"${name}" not created: .*its alias for the model big`));
  const { keys, request_policies: policies } = parse(await runOk("export"));
  // The addresses that config.yaml allows apply to every key.
  const policy = "only from 10.0.0.1, 10.0.0.2";
  expect(keys).toEqual([expect.objectContaining({ name: "harmless aliases", request_policy: policy })]);
  expect(policies).toEqual([{ name: policy, networks: ["10.0.0.1", "10.0.0.2"] }]);
});

test("a key is not put into a group of this gateway that has fallback", async () => {
  const lines = [
    "models: [{ id: gpt-4o, interfaces: [chat] }]",
    "groups: [{ name: other, models: [gpt-4o] }, { name: default, models: [gpt-4o], billing: { charge: balance },",
    "  fallback: [{ group: other, when: [window_used] }] }]",
  ];
  writeFileSync(join(folder(), "more.yaml"), lines.join("\n"));
  await runOk("apply", "more.yaml");
  const report: Report = await json(
    ...prepareNewApi({
      users: [{ id: 1, username: "ada", email: "ada@example.com" }],
      tokens: [{ id: 1, user_id: 1, key: storedKey("a"), name: "one" }],
    }),
  );
  expect(found(report)).toContain('the group "default" of this gateway has fallback to other groups');
});
