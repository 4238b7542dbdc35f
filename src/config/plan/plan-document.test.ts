import { afterEach, beforeEach, expect, test } from "bun:test";
import { accountCredentialBinding, unseal } from "../../secrets/seal.ts";
import { listChanges } from "../../store/audit-log/audit-log.ts";
import { listUsers } from "../../store/identity/users.ts";
import { listKeys } from "../../store/policy/keys.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { type FreshInstallation, freshInstallation } from "../installation/installation.test-support.ts";
import type { Installation } from "../installation/installation.ts";
import type { GatewayDocument } from "../schema/schema.ts";
import { applyChanges, type PlannedChanges, planChanges, planDocument, previewDocument } from "./apply.ts";
import type { PlanOptions } from "./plan.ts";

let gateway: Installation;
let remove: FreshInstallation["remove"];

const FILE = `
models:
  - { id: fast, interfaces: [chat], price: { input: "1", output: "2" } }
  - { id: slow, interfaces: [chat] }
accounts:
  - { name: up, kind: openai, base_url: https://up.example/v1, credential: sk-canary-1, models: { "*": "*" } }
  - { name: near, kind: openai, base_url: http://10.0.0.5/v1, credential: sk-canary-2, private_network: true }
groups:
  - name: default
    models: [fast, slow]
    accounts: [up, near]
    billing: { model_multipliers: { slow: "2" }, model_prices: { fast: { input: "3" } } }
  - { name: other, models: [fast], accounts: [up] }
users:
  - { email: ada@example.com, role: user }
  - { email: rich@example.com, role: user, balance: "5.00" }
keys:
  - { name: ci, user: ada@example.com, group: default }
  - { name: unowned, group: other }
`;

beforeEach(async () => {
  ({ gateway, remove } = await freshInstallation());
  await applyChanges(gateway, await planned(planChanges(gateway, parseValid(FILE), { prune: false })));
});

afterEach(() => remove());

function parseValid(text: string) {
  return { text, fileName: "gateway.yaml", environment: {} };
}

async function planned(result: ReturnType<typeof planDocument>): Promise<PlannedChanges> {
  const found = await result;
  if (!found.ok) throw new Error(JSON.stringify(found.problems));
  return found.plan;
}

type Options = Pick<PlanOptions, "removals" | "fromConsole">;

async function apply(document: GatewayDocument, options: Options = {}): Promise<string[]> {
  const plan = await planned(planDocument(gateway, document, options));
  await applyChanges(gateway, plan);
  return plan.changes.map(({ kind, what }) => `${kind} ${what}`);
}

async function findProblems(document: GatewayDocument, options: Options = {}): Promise<string[]> {
  const result = await planDocument(gateway, document, options);
  if (result.ok) throw new Error("It has no problems.");
  return result.problems.map(({ line, field, message }) => {
    expect(line).toBe(0);
    return `${field}: ${message}`;
  });
}

const UP = { name: "up", kind: "openai", base_url: "https://up.example/v1", models: { "*": "*" } };
const NEAR = { name: "near", kind: "openai", base_url: "http://10.0.0.5/v1", private_network: true };

test("a document produces the same plan as a file with the same content", async () => {
  const document = {
    models: [{ id: "new", interfaces: ["chat"] }],
    groups: [{ name: "other", models: ["new"], accounts: ["up"], limits: { rpm: 5 } }],
    users: [{ email: "ada@example.com", limits: { windows: [{ per: "1d", usd: "2.00" }] } }],
  };
  const byFile = await planned(planChanges(gateway, parseValid(JSON.stringify(document)), { prune: false }));
  const byDocument = await planned(planDocument(gateway, document));
  expect(byDocument.changes.map(({ kind, what, fields }) => ({ kind, what, fields }))).toEqual(
    byFile.changes.map(({ kind, what, fields }) => ({ kind, what, fields })),
  );
  expect(byDocument.changes).toHaveLength(3);
});

test("every problem names its field, without a line number", async () => {
  expect(
    await findProblems({
      groups: [{ name: "other", models: ["fats"], limits: { rpm: 0 }, extra: true }],
    }),
  ).toEqual([
    "groups[0].extra: is not a known field. Allowed here: name, interfaces, models, accounts, access, billing, limits, group_limits, queue, on_disconnect, web_searches_max, websocket, cost_headers, capture, request_policy, fallback.",
    "groups[0].limits.rpm: must be a whole number, 1 or more.",
    'groups[0].models[0]: the model "fats" does not exist. Did you mean "fast"?',
  ]);
});

test("removing a group revokes its keys", async () => {
  expect(await apply({}, { removals: { groups: ["default"] } })).toEqual([
    "remove key ci of ada@example.com",
    "remove group default",
  ]);
  expect((await listKeys(gateway.db)).map(({ name, status }) => [name, status])).toEqual([
    ["ci", "revoked"],
    ["unowned", "active"],
  ]);
});

test("removed models and accounts are taken out of the groups that name them", async () => {
  expect(await apply({}, { removals: { models: ["slow"], accounts: ["near"] } })).toEqual([
    "change group default",
    "remove account near",
    "remove model slow",
  ]);
  const { groups, accounts } = await readPolicy(gateway.db);
  const [group] = groups;
  expect(group?.models).toEqual(["fast"]);
  expect(group?.accounts).toEqual(accounts.filter(({ name }) => name === "up").map(({ id }) => id));
  expect(group?.billing).toMatchObject({ modelMultipliers: {}, modelPrices: { fast: { input: "3" } } });
});

test("a document cannot refer to a record that it removes", async () => {
  const document = { groups: [{ name: "other", models: ["fast"], accounts: ["up"] }] };
  expect(await findProblems(document, { removals: { models: ["fast"] } })).toEqual([
    'groups[0].models[0]: the model "fast" does not exist. Known: slow.',
  ]);
});

test("a record that is stored and in the document is named once", async () => {
  const document = {
    groups: [{ name: "default", models: [], accounts: [], fallback: [{ group: "nowhere", when: ["busy"] }] }],
  };
  expect(await findProblems(document)).toEqual([
    'groups[0].fallback[0].group: the group "nowhere" does not exist. Known: default, other.',
  ]);
});

test("an unknown record cannot be removed", async () => {
  expect(await findProblems({}, { removals: { groups: ["nowhere"] } })).toEqual([
    'groups[0]: the group "nowhere" does not exist.',
  ]);
});

test("a user with a debt cannot be removed", async () => {
  await gateway.db.sql`UPDATE wallet SET balance_nano = -50000000, debt_nano = 50000000`;
  expect(await findProblems({}, { removals: { users: ["rich@example.com"] } })).toEqual([
    "users: rich@example.com still has a debt of $0.05. Adjust the balance to zero first.",
  ]);
});

test("removing a user revokes the keys, and fails while the wallet has money", async () => {
  expect(await findProblems({}, { removals: { users: ["rich@example.com"] } })).toEqual([
    "users: rich@example.com still has a balance of $5.00. Adjust the balance to zero first.",
  ]);
  expect(await apply({}, { removals: { users: ["Ada@example.com"] } })).toEqual([
    "remove key ci of ada@example.com",
    "remove user ada@example.com",
  ]);
  expect((await listUsers(gateway.db)).map(({ email }) => email)).toEqual(["rich@example.com"]);
});

test("a group that starts to charge reports keys without a user", async () => {
  const document = {
    groups: [{ name: "other", models: ["fast"], accounts: ["up"], billing: { charge: "balance" } }],
  };
  expect((await findProblems(document)).join()).toContain('the group has the key "unowned" without a user');
});

test("private networks cannot be enabled from the console", async () => {
  const from = { fromConsole: true };
  const [problem] = await findProblems({ accounts: [{ ...UP, private_network: true }] }, from);
  expect(problem).toStartWith("accounts[0].private_network: cannot be enabled here.");
  expect(await apply({ accounts: [{ ...NEAR, priority: 2 }] }, from)).toEqual(["change account near"]);
  const moved = { ...NEAR, base_url: "http://10.0.0.6/v1", credential: "sk-canary-3" };
  expect((await findProblems({ accounts: [moved] }, from)).join()).toContain("private_network");
});

test("the console cannot send a stored credential to another base URL", async () => {
  const moved = { ...UP, base_url: "https://elsewhere.example/v1" };
  expect(await findProblems({ accounts: [moved] }, { fromConsole: true })).toEqual([
    "accounts[0].credential: must be entered again: the stored value belongs to the old address.",
  ]);
  await apply({ accounts: [{ ...moved, credential: "sk-canary-4" }] }, { fromConsole: true });
  const account = (await readPolicy(gateway.db)).accounts.find(({ name }) => name === "up");
  const binding = accountCredentialBinding(account?.id ?? "");
  expect(unseal(gateway.keyring, binding, account?.sealedCredential ?? "")).toBe("sk-canary-4");
});

test("each change is in the audit log, without secrets", async () => {
  const author = { actor: { kind: "user", id: "user_1", name: "ops@example.com" }, address: "::1" } as const;
  const plan = await planned(
    planDocument(gateway, { accounts: [{ ...UP, weight: 3, credential: "sk-canary-5" }] }),
  );
  await applyChanges(gateway, plan, author);
  const { rows } = await listChanges(gateway.db, { actorId: "user_1" }, { after: null, limit: 10 });
  expect(rows).toHaveLength(1);
  expect(rows[0]).toMatchObject({
    ...author,
    action: "account.change",
    target: "account up",
    changes: [
      { field: "weight", from: "1", to: "3" },
      { field: "credential", from: "(changed)", to: "(changed)" },
    ],
  });
});

test("a preview returns the resulting policy and writes nothing", async () => {
  const group = { name: "new", models: ["slow"], accounts: ["up"], billing: { charge: "balance" } };
  const { after, problems } = await previewDocument(gateway, { groups: [group] });
  expect(after?.groups.map(({ name }) => name)).toEqual(["default", "other", "new"]);
  expect(problems.map(({ field }) => field)).toEqual(["groups[0].models[0]"]);
  expect((await readPolicy(gateway.db)).groups).toHaveLength(2);
});
