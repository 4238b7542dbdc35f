import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { listGroups } from "../../store/policy/groups.ts";
import { listKeys } from "../../store/policy/keys.ts";
import { listModels } from "../../store/policy/models.ts";
import { exportFile } from "../export/export.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import { formatProblem, type Problem } from "../state/problem.ts";
import { applyChanges, type PlanResult, planChanges, planDocument } from "./apply.ts";

let fresh: FreshInstallation;
let installation: FreshInstallation["gateway"];
beforeEach(async () => {
  fresh = await freshInstallation();
  installation = fresh.gateway;
});
afterEach(() => fresh.remove());

const BASE = `models:
  - { id: fast, interfaces: [chat], price: { input: "1", output: "2" } }
  - { id: slow, interfaces: [chat], price: { input: "1", output: "2" } }
accounts: [{ name: sim, kind: simulator }]
users: [{ email: ann@example.com }]
`;

const CHAIN = `${BASE}
groups:
  - name: saver
    models: [fast]
    accounts: [sim]
    fallback:
      - { group: standard, when: [busy, failing], max_price: "2.5", leave_after: 3s, stay: 10m }
      - { group: standard, when: [subscription_used], pay: balance }
  - { name: standard, models: [fast, slow], accounts: [sim] }
keys:
  - { name: build, user: ann@example.com, group: saver, fallback: deny }
  - { name: test, user: ann@example.com, group: saver, fallback: allow }
`;

function plan(text: string, prune = false): Promise<PlanResult> {
  return planChanges(installation, { text, fileName: "gateway.yaml", environment: {} }, { prune });
}

async function apply(text: string, prune = false): Promise<string[]> {
  const planned = await plan(text, prune);
  if (!planned.ok) throw new Error(planned.problems.map(formatProblem).join("\n"));
  await applyChanges(installation, planned.plan);
  return planned.plan.changes.map(({ kind, what }) => `${kind} ${what}`);
}

function listProblems(planned: PlanResult): Problem[] {
  return planned.ok ? [] : planned.problems;
}

test("steps are stored with ids, exported with names, and applied again without a change", async () => {
  await apply(
    CHAIN.replace(
      "id: slow, interfaces",
      "id: slow, fallback: [{ model: fast, when: [too_long] }], interfaces",
    ),
  );
  const [saver, standard] = await listGroups(installation.db);
  expect(saver?.fallback).toEqual([
    {
      group: standard?.id ?? "",
      model: null,
      when: ["busy", "failing"],
      pay: null,
      maxPrice: "2.5",
      leaveAfterMs: 3_000,
      stayMs: 600_000,
    },
    expect.objectContaining({ when: ["subscription_used"], pay: "balance", stayMs: null }),
  ]);
  const models = await listModels(installation.db);
  expect(models.map(({ fallback }) => fallback.length)).toEqual([0, 1]);
  expect((await listKeys(installation.db)).map(({ fallback }) => fallback)).toEqual(["deny", null]);
  const text = await exportFile(installation.db);
  expect(text).toContain("fallback: deny");
  expect(text).toContain("leave_after: 3s");
  expect(await apply(text, true)).toEqual([]);
});

test("a changed step is shown by its number, and steps that are left out are removed", async () => {
  await apply(CHAIN);
  const planned = await plan(
    "groups: [{ name: saver, models: [fast], accounts: [sim], fallback: [{ group: standard, when: [busy] }] }]",
  );
  expect(planned.ok && planned.plan.changes).toMatchObject([
    {
      what: "group saver",
      fields: [
        {
          field: "fallback.1",
          from: "{group: standard, max_price: 2.5, leave_after: 3s, stay: 10m, when: [busy, failing]}",
          to: "{group: standard, when: [busy]}",
        },
        { field: "fallback.2", to: null },
      ],
    },
  ]);
});

/** A group `saver` with these steps, on line 6, and a group `standard` with these fields. */
function groupsFile(steps: string, { saver = "", standard = "models: [fast, slow]" } = {}): string {
  return `${BASE}groups:
  - { name: saver, models: [fast], accounts: [sim], ${saver} fallback: [${steps}] }
  - { name: standard, accounts: [sim], ${standard} }
`;
}

describe("a file is rejected with its line for a step of a group", () => {
  const many = Array(5).fill("{ group: standard, when: [busy] }").join(", ");
  test.each([
    [
      "without a condition",
      "{ group: standard, when: [] }",
      "fallback[0].when: must be a list with at least one",
    ],
    ["with an unknown condition", "{ group: standard, when: [bored] }", "fallback[0].when[0]"],
    ["with one condition twice", "{ group: standard, when: [busy, busy] }", "fallback[0].when"],
    ["beyond the fourth", many, "fallback: must be a list with at most 4 steps"],
    ["to an unknown group", "{ group: standart, when: [busy] }", 'Did you mean "standard"?'],
    ["to itself", "{ group: saver, when: [busy] }", "fallback[0].group: is this group itself"],
    ["to a model", "{ model: slow, when: [busy] }", "fallback[0].group: is missing"],
    [
      "with a max_price of zero",
      '{ group: standard, when: [busy], max_price: "0" }',
      "fallback[0].max_price",
    ],
    ["with an unknown payer", "{ group: standard, when: [busy], pay: bank }", "fallback[0].pay"],
    [
      "that leaves later than the queue",
      "{ group: standard, when: [busy], leave_after: 31s }",
      "is longer than queue.timeout",
    ],
    [
      "with leave_after and not busy",
      "{ group: standard, when: [failing], leave_after: 1s }",
      "only with the condition busy",
    ],
    ["with a stay above a day", "{ group: standard, when: [busy], stay: 25h }", "fallback[0].stay"],
  ])("%s", async (_, steps, message) => {
    const [problem] = listProblems(await plan(groupsFile(steps)));
    expect(problem?.line).toBe(7);
    expect(problem?.field).toStartWith("groups[0].fallback");
    expect(formatProblem(problem as Problem)).toContain(message);
  });

  const STEP = "{ group: standard, when: [busy] }";
  test.each([
    [
      "a cycle",
      { standard: "models: [fast], fallback: [{ group: saver, when: [busy] }]" },
      STEP,
      "saver → standard → saver",
    ],
    ["a target without the model", { standard: "models: [slow]" }, STEP, "does not publish fast"],
    [
      "a target without its interfaces",
      { standard: "models: [fast], interfaces: [messages]" },
      STEP,
      "through chat",
    ],
    [
      "max_price with a free first step",
      { saver: 'billing: { multiplier: "0" },' },
      '{ group: standard, when: [busy], max_price: "2" }',
      "fast has no price in the group",
    ],
  ])("%s", async (_, groups, steps, message) => {
    const [problem] = listProblems(await plan(groupsFile(steps, groups)));
    expect(problem?.line).toBe(7);
    expect(problem?.message).toContain(message);
  });

  test("that no request takes, because the steps of the group and of a model are more than four", async () => {
    const steps = Array(4).fill(STEP).join(", ");
    const withModel = (text: string) =>
      text.replace("id: fast,", "id: fast, fallback: [{ model: slow, when: [busy] }],");
    const both = withModel(
      groupsFile(steps, { saver: "models: [fast, slow]," }).replace("models: [fast], ", ""),
    );
    const [problem, ...others] = listProblems(await plan(both));
    expect(problem).toMatchObject({ line: 2, field: "models[0].fallback[0].model" });
    expect(problem?.message).toContain('never taken in the group "saver"');
    expect(others).toEqual([]);
    // In the group `saver`, requests for the model have no other step.
    await apply(withModel(groupsFile(steps)));
    const [later] = listProblems(
      await plan(
        groupsFile(steps, { saver: "models: [fast, slow]," })
          .replace("models: [fast], ", "")
          .replace(BASE, ""),
      ),
    );
    expect(later?.message).toContain('step 1 of the fallback of the model "fast": model is never taken');
  });

  test("a charging target without a price", async () => {
    const text = groupsFile("{ group: standard, when: [busy], pay: balance }").replaceAll(
      ', price: { input: "1", output: "2" }',
      "",
    );
    expect(listProblems(await plan(text))).toMatchObject([
      {
        line: 7,
        field: "groups[0].fallback[0].pay",
        message: expect.stringContaining("has no price for fast"),
      },
    ]);
  });

  test("max_price on a first step without a price", async () => {
    const text = groupsFile('{ group: standard, when: [busy], max_price: "2" }').replaceAll(
      ', price: { input: "1", output: "2" }',
      "",
    );
    expect(listProblems(await plan(text))).toMatchObject([
      { line: 7, field: "groups[0].fallback[0].max_price" },
    ]);
  });

  test.each(["balance", "subscription"])("pay: %s where a key has no user", async (pay) => {
    const text = groupsFile(`{ group: standard, when: [busy], pay: ${pay} }`);
    expect(listProblems(await plan(`${text}keys: [{ name: k, group: saver }]`))).toMatchObject([
      {
        line: 7,
        field: "groups[0].fallback[0].pay",
        message: expect.stringContaining('the key "k" without a user'),
      },
    ]);
    expect(listProblems(await plan(`${text}keys: [{ name: k, group: saver, fallback: deny }]`))).toEqual([]);
  });
});

describe("a file is rejected with its line for a step of a model", () => {
  const modelsFile = (step: string, more = "") => `models:
  - { id: fast, interfaces: [chat], price: { input: "1" }, fallback: [${step}] }
  - { id: slow, interfaces: [chat], price: { input: "1" } ${more} }
  - { id: painter, interfaces: [images] }
accounts: [{ name: sim, kind: simulator }]
groups:
  - { name: both, models: [fast, slow], accounts: [sim], queue: { timeout: 10s } }
`;
  test.each([
    ["an unknown target", "{ model: slaw, when: [busy] }", "", 'the model "slaw" does not exist'],
    ["itself", "{ model: fast, when: [busy] }", "", "is this model itself"],
    [
      "a cycle",
      "{ model: slow, when: [busy] }",
      ", fallback: [{ model: fast, when: [busy] }]",
      "fast → slow → fast",
    ],
    [
      "a target that no group has beside it",
      "{ model: painter, when: [busy] }",
      "",
      "is in no group that publishes",
    ],
    [
      "a long leave_after",
      "{ model: slow, when: [busy], leave_after: 11s }",
      "",
      'queue.timeout of the group "both"',
    ],
  ])("%s", async (_, step, more, message) => {
    const [problem] = listProblems(await plan(modelsFile(step, more)));
    expect(problem).toMatchObject({ line: 2, message: expect.stringContaining(message) });
  });

  test("a target without its interfaces", async () => {
    const text = modelsFile("{ model: painter, when: [busy] }").replace(
      "[fast, slow]",
      "[fast, slow, painter]",
    );
    expect(listProblems(await plan(text))).toMatchObject([
      { line: 2, message: expect.stringContaining("does not serve fast through chat") },
    ]);
  });
});

describe("a later change of the target is rejected", () => {
  beforeEach(async () => {
    await apply(CHAIN);
  });

  test("by file, if the target loses the model, at its line", async () => {
    expect(
      listProblems(await plan("groups:\n  - { name: standard, models: [slow], accounts: [sim] }")),
    ).toMatchObject([
      {
        line: 2,
        field: "groups[0]",
        message: expect.stringContaining(
          'step 1 of the fallback of the group "saver": group does not publish fast',
        ),
      },
      { line: 2 },
    ]);
  });

  test("by pruning or by the console, if it is deleted", async () => {
    const without = CHAIN.replace(/ {2}- \{ name: standard.*\n/, "");
    expect(listProblems(await plan(without, true))).toMatchObject([
      { field: "groups[0].fallback[0].group", message: expect.stringContaining('"standard" does not exist') },
      { field: "groups[0].fallback[1].group" },
    ]);
    const removed = await planDocument(installation, {}, { removals: { groups: ["standard"] } });
    expect(listProblems(removed)).toMatchObject([
      {
        message: expect.stringContaining(
          '"standard" is the target of step 1 of the fallback of the group "saver"',
        ),
      },
      {},
    ]);
    expect(listProblems(await planDocument(installation, {}, { removals: { groups: ["saver"] } }))).toEqual(
      [],
    );
  });

  test("if it becomes part of a cycle, or loses an interface, or the queue gets shorter", async () => {
    const cycle = { name: "standard", models: ["fast"], fallback: [{ group: "saver", when: ["busy"] }] };
    expect(listProblems(await planDocument(installation, { groups: [cycle] }))[0]?.message).toContain(
      "cycle",
    );
    const narrow = { name: "standard", models: ["fast"], interfaces: ["messages"] };
    expect(listProblems(await planDocument(installation, { groups: [narrow] }))[0]?.message).toContain(
      "through chat",
    );
    const [saver] = (await plan(CHAIN)).ok
      ? [{ name: "saver", models: ["fast"], queue: { timeout: "1s" } }]
      : [];
    const steps = [{ group: "standard", when: ["busy"], leave_after: "3s" }];
    const short = await planDocument(installation, { groups: [{ ...saver, fallback: steps }] });
    expect(listProblems(short)[0]?.message).toContain("longer than queue.timeout");
  });

  test("if it begins to charge, and a stored key has no user", async () => {
    await apply("groups: [{ name: saver, models: [fast], fallback: [{ group: standard, when: [busy] }] }]");
    await apply("keys: [{ name: anonymous, group: saver }]");
    const standard = { name: "standard", models: ["fast", "slow"], billing: { charge: "balance" } };
    expect(listProblems(await planDocument(installation, { groups: [standard] }))).toMatchObject([
      { field: "groups[0]", message: expect.stringContaining('the key "anonymous" without a user') },
    ]);
  });

  test("but not a change of another group", async () => {
    await apply("groups: [{ name: third, models: [slow], accounts: [sim] }]");
    expect(await apply("groups: [{ name: third, models: [fast], accounts: [sim] }]")).toEqual([
      "change group third",
    ]);
  });
});

test("a model that other models fall back to is not removed", async () => {
  await apply(
    CHAIN.replace(
      "id: slow, interfaces",
      "id: slow, fallback: [{ model: fast, when: [too_long] }], interfaces",
    ),
  );
  const removed = await planDocument(installation, {}, { removals: { models: ["fast"] } });
  expect(listProblems(removed)).toMatchObject([
    {
      message: expect.stringContaining('"fast" is the target of step 1 of the fallback of the model "slow"'),
    },
  ]);
});

test("a chain cannot be saved while a node of an earlier version runs", async () => {
  const { db } = installation;
  await db.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, folder_id, start_ticks, schema_known)
    VALUES ('old-node', 'h', 1, 1, 1, 'f', 1, 11)`;
  await expect(apply(CHAIN)).rejects.toThrow(
    'The fallback of the group "saver" cannot be saved while the node old-node runs an earlier version',
  );
  expect(await apply(BASE)).toContain("create model fast");
});
