import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { listGroups } from "../../store/policy/groups.ts";
import { deleteRequestPolicy, listRequestPolicies } from "../../store/policy/request-policies.ts";
import { exportFile } from "../export/export.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import { formatProblem } from "../state/problem.ts";
import { applyChanges, planChanges, planDocument } from "./apply.ts";

let fresh: FreshInstallation;
let installation: FreshInstallation["gateway"];
beforeEach(async () => {
  fresh = await freshInstallation();
  installation = fresh.gateway;
});
afterEach(() => fresh.remove());

const BASE = `
models: [{ id: fast, interfaces: [chat] }, { id: slow, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator }]
`;

async function plan(text: string, prune = false) {
  return planChanges(installation, { text, fileName: "gateway.yaml", environment: {} }, { prune });
}

async function apply(text: string, prune = false): Promise<string[]> {
  const planned = await plan(text, prune);
  if (!planned.ok) throw new Error(planned.problems.map(formatProblem).join("\n"));
  await applyChanges(installation, planned.plan);
  return planned.plan.changes.map(({ kind, what }) => `${kind} ${what}`);
}

async function problems(text: string): Promise<string[]> {
  const planned = await plan(text);
  return planned.ok ? [] : planned.problems.map(formatProblem);
}

const POLICY = `
request_policies:
  - name: contractors
    self_service: true
    models: [ fast, "sl*" ]
    networks: [ 10.0.0.0/8, "2001:db8::/32" ]
    input_tokens: { max: 200000 }
    output_tokens: { max: 16000, over: lower }
    effort: { max: high, over: reject }
    service_tiers: [ auto, default, flex ]
    tools: { deny: [ web_search, code ], over: drop }
    inputs: { images: 20, files: deny }
    force: { store: false }
groups: [{ name: external, models: [fast, slow], accounts: [sim], request_policy: contractors }]
keys: [{ name: ci, group: external, request_policy: contractors }]
`;

test("a policy is stored, exported, and applied again without a change", async () => {
  expect(await apply(BASE + POLICY)).toContain("create request_policy contractors");
  expect((await listGroups(installation.db)).map(({ requestPolicy }) => requestPolicy)).toEqual([
    "contractors",
  ]);
  expect(await listRequestPolicies(installation.db)).toMatchObject([
    { name: "contractors", selfService: true, rules: { effort: { max: "high", over: "reject" } } },
  ]);
  const text = await exportFile(installation.db);
  expect(text).toContain("request_policy: contractors");
  expect(text).toContain("inputs: { images: 20, files: deny }");
  expect(await apply(text, true)).toEqual([]);
});

test("a rule that is left out is removed, and a change is shown", async () => {
  await apply(BASE + POLICY);
  const planned = await plan("request_policies: [{ name: contractors, effort: { max: low } }]");
  expect(planned.ok && planned.plan.changes).toMatchObject([
    {
      what: "request_policy contractors",
      fields: expect.arrayContaining([
        { field: "networks", from: '["10.0.0.0/8","2001:db8::/32"]', to: null },
        {
          field: "effort",
          from: '{"max":"high","over":"reject"}',
          to: '{"max":"low","over":"lower"}',
        },
      ]),
    },
  ]);
});

test("a policy that is in use is not deleted", async () => {
  await apply(BASE + POLICY);
  expect(deleteRequestPolicy(installation.db, "contractors")).rejects.toThrow(
    'The request policy "contractors" is still used by group "external".',
  );
});

test("pruning removes policies that the file does not name", async () => {
  await apply(BASE + POLICY);
  const without = `${BASE}groups: [{ name: external, models: [fast], accounts: [sim] }]`;
  expect(await apply(without, true)).toContain("remove request_policy contractors");
});

test("a policy cannot be saved while a node of an earlier version runs", async () => {
  const { db } = installation;
  await db.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, folder_id, start_ticks, schema_known)
    VALUES ('old-node', 'h', 1, 1, 1, 'f', 1, 1)`;
  expect(apply(BASE + POLICY)).rejects.toThrow(/while the node old-node runs an earlier version/);
});

describe("a file is rejected with its line for", () => {
  test.each([
    ["an unknown rule", "{ name: p, gravity: 1 }", "gravity"],
    ["an unknown kind of tool", "{ name: p, tools: { deny: [teleport] } }", "tools.deny[0]"],
    ["no kind of tool", "{ name: p, tools: { deny: [] } }", "tools.deny"],
    ["no model", "{ name: p, models: [] }", "models"],
    ["a model that does not exist", "{ name: p, models: [medium] }", "models[0]"],
    ["a bad network", "{ name: p, networks: [10.0.0.1/8] }", "networks[0]"],
    ["a cap below 16 tokens", "{ name: p, output_tokens: { max: 15 } }", "output_tokens.max"],
    ["an unknown effort", "{ name: p, effort: { max: huge } }", "effort.max"],
    ["a forced true", "{ name: p, force: { store: true } }", "force.store"],
  ])("%s", async (_, policy, field) => {
    const [problem = ""] = await problems(`${BASE}request_policies: [${policy}]`);
    expect(problem).toStartWith("gateway.yaml:4:");
    expect(problem).toContain(`request_policies[0].${field}`);
  });

  test("a group that would have no model", async () => {
    const text = `${BASE}request_policies: [{ name: p, models: [slow] }]
groups: [{ name: g, models: [fast], accounts: [sim], request_policy: p }]`;
    expect(await problems(text)).toEqual([
      expect.stringContaining("groups[0].request_policy: leaves no model"),
    ]);
  });

  test.each([
    [
      "a stored group would have no model",
      "request_policies: [{ name: contractors, models: [slow] }]",
      "external",
    ],
    [
      "a stored key would have no model",
      "request_policies: [{ name: keys-only, models: [slow] }]",
      'the key "sub"',
    ],
    [
      "a stored key would have no model of its group",
      "groups: [{ name: wide, models: [slow], accounts: [sim] }]",
      'the key "sub"',
    ],
  ])("a changed policy or group, if %s", async (_, text, named) => {
    await apply(`${BASE}
request_policies: [{ name: contractors, models: [fast] }, { name: keys-only, models: [fast] }]
groups:
  - { name: external, models: [fast], accounts: [sim], request_policy: contractors }
  - { name: wide, models: [fast], accounts: [sim] }
keys: [{ name: sub, group: wide, request_policy: keys-only }]`);
    const [problem = "", ...others] = await problems(text);
    expect(problem).toStartWith("gateway.yaml:1:");
    expect(problem).toContain("leaves no model");
    expect(problem).toContain(named);
    expect(others).toEqual([]);
    const planned = await planDocument(installation, Bun.YAML.parse(text) as object);
    expect(planned.ok).toBe(false);
  });

  test("a policy that leaves some model, with a stored group and key", async () => {
    await apply(BASE + POLICY);
    expect(await apply("request_policies: [{ name: contractors, models: [slow] }]")).toEqual([
      "change request_policy contractors",
    ]);
  });

  test("a policy that does not exist", async () => {
    const text = `${BASE}groups: [{ name: g, models: [fast], accounts: [sim], request_policy: none }]`;
    expect(await problems(text)).toEqual([
      expect.stringContaining('the request policy "none" does not exist'),
    ]);
  });
});
