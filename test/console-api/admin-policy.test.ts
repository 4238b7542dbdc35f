/**
 * Groups, accounts, models, prices and the whole file through the API: changes are active when the response arrives.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { gatewayFile } from "../../src/config/schema/schema.ts";
import { accountForm, groupForm, modelForm } from "../../src/console-api/forms/policy-forms.ts";
import type { Routes } from "../../src/console-api/routes.ts";
import { listChanges } from "../../src/store/audit-log/audit-log.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import {
  type RunningGateway,
  startTestGateway,
  TEST_KEY,
  UPSTREAM_CREDENTIAL,
} from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway({
    models: { "fast-chat": "sim-fast", "slow-chat": "sim-fast" },
    // Waiting for a key to become active sends invalid keys repeatedly.
    limits: { badKeyTriesPerMinute: 10_000 },
  });
  admin = await signInAs(gateway, "ops@example.com", "admin");
});

afterAll(() => gateway.stop());

async function listModels(key: string): Promise<string[]> {
  const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await response.json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}

async function chat(model: string, key = TEST_KEY): Promise<number> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] }),
  });
  await response.text();
  return response.status;
}

type ResponseBody<Name extends keyof Routes> = z.output<Routes[Name]["response"]>;

function account(name: string): Promise<ResponseBody<"admin.accounts.get">> {
  return admin.call("admin.accounts.get", { params: { name } });
}

test("a form has exactly the fields of the configuration file", () => {
  const readSection = (name: "models" | "accounts" | "groups") =>
    Object.keys(gatewayFile.shape[name].unwrap().element.shape);
  expect(Object.keys(modelForm.shape).sort()).toEqual(readSection("models").sort());
  expect(Object.keys(groupForm.shape).sort()).toEqual(readSection("groups").sort());
  // The credential is separate from the document, because it is never returned.
  const accountFields = readSection("accounts").filter((field) => field !== "credential");
  expect(Object.keys(accountForm.shape).sort()).toEqual(accountFields.sort());
});

describe("groups", () => {
  test("a preview lists the future GET /v1/models and why other models are missing", async () => {
    const document = {
      name: "previewed",
      models: ["fast-chat", "slow-chat"],
      accounts: ["sim"],
      billing: { charge: "balance" as const, model_prices: { "fast-chat": { input: "1", output: "2" } } },
    };
    const preview = await admin.call("admin.groups.preview", { body: document });
    expect(preview.problems.map(({ field }) => field)).toEqual(["models[1]"]);
    expect(preview.models?.map(({ id, listed, shortcomings }) => [id, listed, shortcomings])).toEqual([
      ["fast-chat", true, []],
      ["slow-chat", false, [{ kind: "no_price", interfaces: [] }]],
    ]);
    expect(preview.models?.[0]).toMatchObject({
      interfaces: ["chat", "responses", "embeddings", "images"],
      price: { tokens: { input: "1.00", output: "2.00" } },
      price_source: { source: "group", listed: null },
      accounts: [{ name: "sim", upstream_model: "sim-fast" }],
    });

    const saved = { ...document, models: ["fast-chat"], billing: { charge: "none" as const } };
    const listed = (await admin.call("admin.groups.preview", { body: saved })).models?.map(({ id }) => id);
    await admin.call("admin.groups.create", { body: saved });
    await gateway.apply(`
keys: [{ name: previewing, user: dev@example.com, group: previewed, secret: previewing-key-0123456789-0123456789 }]`);
    const key = "previewing-key-0123456789-0123456789";
    await eventually(() => chat("fast-chat", key), { equals: 200 });
    expect(await listModels(key)).toEqual(listed ?? []);
  });

  test("a saved group is active at once, and a concurrent change is not overwritten", async () => {
    const before = await admin.call("admin.groups.get", { params: { name: "default" } });
    expect(await listModels(TEST_KEY)).toEqual(["fast-chat", "slow-chat"]);
    const document = { ...before.document, models: ["fast-chat"] };
    const sent = { params: { name: "default" }, body: { document, version: before.version } };
    const after = await admin.call("admin.groups.save", sent);
    expect(await listModels(TEST_KEY)).toEqual(["fast-chat"]);
    expect(after.version).not.toBe(before.version);
    expect(await admin.callRejected("admin.groups.save", sent)).toMatchObject({
      status: 409,
      code: "conflict",
    });
    await admin.call("admin.groups.save", {
      params: { name: "default" },
      body: { document: before.document, version: after.version },
    });
    expect(await listModels(TEST_KEY)).toEqual(["fast-chat", "slow-chat"]);
  });

  test("all errors are reported at once with their fields", async () => {
    const body = { name: "wrong", models: ["nowhere"], limits: { rpm: 0 }, queue: { timeout: "soon" } };
    const refused = await admin.callRejected("admin.groups.create", { body });
    expect(refused).toMatchObject({ status: 400, code: "invalid_value", param: "limits.rpm" });
    expect(refused.message.split("\n").map((line) => line.split(":", 1)[0])).toEqual([
      "limits.rpm",
      "models[0]",
      "queue.timeout",
    ]);
  });

  test("the list counts keys, members and the requests of the last day", async () => {
    expect(await chat("fast-chat")).toBe(200);
    await admin.call("admin.groups.add_member", {
      params: { name: "default" },
      body: { email: "Dev@example.com" },
    });
    await gateway.usageRows();
    const { data } = await admin.call("admin.groups.list", { query: { search: "DEFAULT" } });
    expect(data).toHaveLength(1);
    expect(data[0]).toMatchObject({ name: "default", keys: 2, members: 1, models: 2, hidden_models: 0 });
    expect(data[0]?.requests_last_day).toBeGreaterThan(0);
    const members = await admin.call("admin.groups.members", { params: { name: "default" } });
    expect(members.data.map(({ email }) => email)).toEqual(["dev@example.com"]);
    const listed = await admin.call("admin.users.list", { query: { group: "default" } });
    expect(listed.data.map(({ email }) => email)).toEqual(["dev@example.com"]);
    await admin.call("admin.groups.remove_member", { params: { name: "default", email: "dev@example.com" } });
    expect((await admin.call("admin.groups.members", { params: { name: "default" } })).data).toEqual([]);
  });

  test("lists of models, accounts and users are restricted to a group", async () => {
    const query = { group: "default" };
    const all = await admin.call("admin.models.list");
    const models = await admin.call("admin.models.list", { query });
    expect(models.data.map(({ document }) => document.id)).toEqual(["fast-chat", "slow-chat"]);
    expect(models.data.every(({ groups }) => groups.includes("default"))).toBe(true);
    expect(all.data.length).toBeGreaterThanOrEqual(models.data.length);
    expect((await admin.call("admin.accounts.list", { query })).data).toHaveLength(1);
    const unknown = { query: { group: "unheard-of" } };
    expect((await admin.call("admin.models.list", unknown)).data).toEqual([]);
    expect((await admin.call("admin.accounts.list", unknown)).data).toEqual([]);
    expect((await admin.call("admin.users.list", unknown)).data).toEqual([]);
  });

  test("deleting a group invalidates its keys at once", async () => {
    const key = "leaving-key-0123456789-0123456789-0123456789";
    await admin.call("admin.groups.create", {
      body: { name: "leaving", models: ["fast-chat"], accounts: ["sim"] },
    });
    await gateway.apply(`keys: [{ name: leaving, user: dev@example.com, group: leaving, secret: ${key} }]`);
    await eventually(() => chat("fast-chat", key), { equals: 200 });
    expect(await admin.call("admin.groups.delete", { params: { name: "leaving" } })).toEqual({
      revoked_keys: 1,
    });
    expect(await chat("fast-chat", key)).toBe(401);
    expect(await admin.callRejected("admin.groups.get", { params: { name: "leaving" } })).toMatchObject({
      code: "not_found",
    });
  });
});

describe("accounts", () => {
  test("no response contains a credential", async () => {
    const shown = JSON.stringify([
      await admin.call("admin.accounts.list"),
      await account("sim"),
      await admin.call("admin.config.export"),
    ]);
    expect(shown).not.toContain(UPSTREAM_CREDENTIAL);
    expect((await account("sim")).has_credential).toBe(true);
  });

  test("a connection test sends the stored credential only to the stored address", async () => {
    const { document } = await account("sim");
    const good = await admin.call("admin.accounts.test", { body: { document } });
    expect(good).toMatchObject({ kind: "answers", status: 200 });
    expect(good.models).toContain("sim-fast");
    expect(good.websocket).toBeNull();
    const overSocket = await admin.call("admin.accounts.test", {
      body: { document: { ...document, websocket: true } },
    });
    expect(overSocket).toMatchObject({ kind: "answers", websocket: "supported" });
    const moved = { ...document, private_network: undefined, base_url: "https://elsewhere.example/v1" };
    expect(await admin.callRejected("admin.accounts.test", { body: { document: moved } })).toMatchObject({
      param: "credential",
    });
  });

  test("a connection test of unsaved values cannot reach private networks", async () => {
    const document = { name: "new", kind: "openai" as const, base_url: gateway.simulator.url };
    const sent = { body: { document, credential: "sk-x" } };
    expect(await admin.call("admin.accounts.test", sent)).toMatchObject({ kind: "forbidden_address" });
    const open = { body: { document: { ...document, private_network: true } } };
    expect(await admin.callRejected("admin.accounts.test", open)).toMatchObject({ param: "private_network" });
    const nowhere = { body: { document: { name: "new", kind: "openai", base_url: "not an address" } } };
    expect(await admin.callRejected("admin.accounts.test", nowhere)).toMatchObject({ param: "base_url" });
  });

  test("a simulator account added at run time serves requests", async () => {
    await admin.call("admin.accounts.create", {
      body: { document: { name: "built-in", kind: "simulator", models: { "demo-chat": "sim-fast" } } },
    });
    await admin.call("admin.models.create", {
      body: { document: { id: "demo-chat", interfaces: ["chat"] }, groups: ["default"] },
    });
    const group = await admin.call("admin.groups.get", { params: { name: "default" } });
    await admin.call("admin.groups.save", {
      params: { name: "default" },
      body: { document: { ...group.document, accounts: ["sim", "built-in"] } },
    });
    expect(await chat("demo-chat")).toBe(200);
    expect((await account("built-in")).facts).toMatchObject({ state: "well", in_flight: 0 });
  });

  test("a parked account gets no requests until it is unparked, and both are in the audit log", async () => {
    const act = (action: string) =>
      admin.call("admin.accounts.act", { params: { name: "sim" }, body: { action } });
    expect((await act("park")).facts).toMatchObject({ state: "parked", cause: "operator" });
    expect(await chat("fast-chat")).toBe(503);
    expect((await act("unpark")).facts).toMatchObject({ cause: null });
    expect(await chat("fast-chat")).toBe(200);
    const { rows } = await listChanges(
      gateway.installation.db,
      { target: "account sim" },
      { after: null, limit: 2 },
    );
    expect(rows.map(({ action, actor }) => [action, actor.name])).toEqual([
      ["account.unpark", "ops@example.com"],
      ["account.park", "ops@example.com"],
    ]);
  });

  test("a disabled account gets no new requests, while its in-flight requests finish", async () => {
    await gateway.apply(`
accounts: [{ name: slow, kind: openai, base_url: "${gateway.simulator.url}", credential: ${UPSTREAM_CREDENTIAL}, private_network: true, models: { drained: "sim-fast@first=1500ms" } }]
models: [{ id: drained, interfaces: [chat] }]
groups: [{ name: drained, models: [drained], accounts: [slow] }]
keys: [{ name: draining, user: dev@example.com, group: drained, secret: draining-key-0123456789-0123456789-012345 }]`);
    const key = "draining-key-0123456789-0123456789-012345";
    await eventually(() => chat("nowhere", key), { equals: 404 });
    const underWay = chat("drained", key);
    await eventually(async () => (await account("slow")).facts.in_flight, { equals: 1 });
    const act = (action: string) =>
      admin.call("admin.accounts.act", { params: { name: "slow" }, body: { action } });
    expect((await act("disable")).facts).toMatchObject({ state: "draining", in_flight: 1 });
    expect(await chat("drained", key)).toBe(404);
    expect(await underWay).toBe(200);
    await eventually(async () => (await account("slow")).facts.state, { equals: "disabled" });
    expect((await act("enable")).document.enabled).toBeUndefined();
    expect(await listModels(key)).toEqual(["drained"]);
  });

  test("a new credential is used at once and unparks the account", async () => {
    const set = (credential: string) =>
      admin.call("admin.accounts.set_credential", { params: { name: "slow" }, body: { credential } });
    await admin.call("admin.accounts.act", { params: { name: "slow" }, body: { action: "park" } });
    expect((await set("another-credential")).facts.state).toBe("untried");
    await set(UPSTREAM_CREDENTIAL);
  });

  test("the cost and revenue of an account are reported for a day, a week and a month", async () => {
    const { usage, usage_since: since } = await account("sim");
    expect(usage.map(({ days }) => days)).toEqual([1, 7, 30]);
    expect(usage[2]?.requests).toBeGreaterThan(0);
    expect(usage[2]).toMatchObject({ charged: "0.00", failed: 0 });
    expect(since).toBeLessThan(Date.now() - 29 * 86_400_000);
  });

  test("deleting an account removes it from every pool", async () => {
    expect(await admin.call("admin.accounts.delete", { params: { name: "slow" } })).toEqual({
      groups: ["drained"],
    });
    const group = await admin.call("admin.groups.get", { params: { name: "drained" } });
    expect(group.document.accounts).toEqual([]);
  });
});

describe("models and prices", () => {
  test("models are mapped, published, edited and unpublished in bulk", async () => {
    const ids = ["bulk-a", "bulk-b"];
    for (const id of ids) {
      await admin.call("admin.models.create", { body: { document: { id, interfaces: ["chat"] } } });
    }
    await admin.call("admin.models.map", {
      body: { mappings: ids.map((model) => ({ account: "sim", model, upstream_model: "sim-fast" })) },
    });
    await admin.call("admin.models.publish", { body: { models: ids, add: ["default"] } });
    expect(await chat("bulk-a")).toBe(200);
    const price = { input: "0.5", output: "1" };
    expect(await admin.call("admin.models.edit", { body: { models: ids, set: { price } } })).toEqual({
      changed: 2,
    });
    const shown = await admin.call("admin.models.get", { params: { id: "bulk-b" } });
    expect(shown).toMatchObject({
      document: { price },
      groups: ["default"],
      accounts: [{ name: "sim", upstream_model: "sim-fast", enabled: true }],
      prices: [{ groups: ["default"], price, from: { source: "model", listed: null }, multiplier: "1" }],
    });
    await admin.call("admin.models.edit", { body: { models: ids, set: { price: null } } });
    await admin.call("admin.models.publish", { body: { models: ids, remove: ["default"] } });
    expect(await chat("bulk-a")).toBe(404);
    expect(await admin.call("admin.models.delete", { params: { id: "bulk-a" } })).toEqual({ groups: [] });
  });

  test("concurrent changes never undo a change that succeeded", async () => {
    const ids = ["race-a", "race-b", "race-c", "race-d"];
    const responses = await Promise.all(
      ids.map((model) =>
        admin.send("admin.models.map", {
          body: { mappings: [{ account: "sim", model, upstream_model: "sim-fast" }] },
        }),
      ),
    );
    const done = ids.filter((_, i) => responses[i]?.status === 200);
    expect(done.length).toBeGreaterThan(0);
    expect(responses.filter(({ status }) => status !== 200).every(({ status }) => status === 409)).toBe(true);
    const { document } = await account("sim");
    expect(ids.filter((id) => document.models?.[id] === "sim-fast")).toEqual(done);
  });

  test("a price from a list is reported with its date", async () => {
    await admin.call("admin.models.create", { body: { document: { id: "gpt-4o", interfaces: ["chat"] } } });
    const { prices } = await admin.call("admin.models.get", { params: { id: "gpt-4o" } });
    expect(prices[0]?.from).toMatchObject({ source: "bundled list", listed: { name: "gpt-4o" } });
    const list = 'date: 2026-11-01\nmodels:\n  gpt-4o: { price: { input: "9", output: "10" } }\n';
    const dry = await admin.call("admin.prices.update", { body: { text: list, dry_run: true } });
    expect(dry).toMatchObject({ problems: [], applied: false });
    expect(dry.changes.map(({ what }) => what)).toEqual(["price list", "price of gpt-4o"]);
    await admin.call("admin.prices.update", { body: { text: list, dry_run: false } });
    const found = await admin.call("admin.prices.list", { query: { search: "gpt-4o-mini", limit: 1 } });
    expect(found.data).toMatchObject([{ source: "bundled list" }]);
    expect((await admin.call("admin.prices.about")).updated).toEqual({ date: "2026-11-01", models: 1 });
    const after = await admin.call("admin.models.get", { params: { id: "gpt-4o" } });
    expect(after.prices[0]?.from?.listed?.date).toBe("2026-11-01");
    const broken = await admin.call("admin.prices.update", {
      body: { text: "models: {}\ndate: soon", dry_run: true },
    });
    expect(broken.problems[0]).toMatchObject({ line: 2, column: 7, field: "date" });
    const older = { text: list.replace("11-01", "10-31"), dry_run: false };
    const refused = await admin.call("admin.prices.update", { body: older });
    expect(refused).toMatchObject({ problems: [{ line: 1, field: "date" }], applied: false });
  });
});

describe("the configuration file", () => {
  test("planning the exported file results in no changes", async () => {
    const { text } = await admin.call("admin.config.export");
    expect(await admin.call("admin.config.plan", { body: { text, prune: true } })).toEqual({
      problems: [],
      changes: [],
      notes: [],
      plan: null,
    });
  });

  test("exactly the planned difference is applied", async () => {
    const text =
      "groups: [{ name: imported, models: [fast-chat], accounts: [sim] }]\nkeys: [{ name: made, group: imported }]";
    const planned = await admin.call("admin.config.plan", { body: { text } });
    expect(planned.changes.map(({ kind, what }) => `${kind} ${what}`)).toEqual([
      "create group imported",
      "create key made",
    ]);
    const sent = { body: { text, plan: planned.plan } };
    await admin.call("admin.groups.create", { body: { name: "imported" } });
    expect(await admin.callRejected("admin.config.apply", sent)).toMatchObject({
      status: 409,
      code: "conflict",
    });
    const again = await admin.call("admin.config.plan", { body: { text } });
    const { keys } = await admin.call("admin.config.apply", { body: { text, plan: again.plan } });
    expect(keys.map(({ name, group }) => [name, group])).toEqual([["made", "imported"]]);
    expect(await chat("fast-chat", keys[0]?.secret)).toBe(200);
  });

  test("problems have their position in the text", async () => {
    const text = "models:\n  - id: broken\n    interfaces: [chat, telepathy]\n";
    const { problems, plan } = await admin.call("admin.config.plan", { body: { text } });
    expect(problems).toMatchObject([{ line: 3, column: 24, field: "models[0].interfaces[1]" }]);
    expect(plan).toBeNull();
  });

  test("a text from a browser reads no environment variables and opens no private network", async () => {
    const text = `
accounts:
  - { name: "\${HOME}", kind: openai, base_url: "https://x.example" }
  - { name: inside, kind: openai, base_url: "http://127.0.0.1:1/v1", private_network: true }`;
    const { problems } = await admin.call("admin.config.plan", { body: { text } });
    expect(problems.map(({ line }) => line)).toEqual([3]);
    expect(problems[0]?.message).not.toContain(process.env.HOME ?? "/");
    const inside = await admin.call("admin.config.plan", {
      body: { text: text.replace(/\$\{HOME\}/, "home") },
    });
    expect(inside.problems).toMatchObject([{ line: 4, field: "accounts[1].private_network" }]);
  });
});

test("users cannot use the administrator's API", async () => {
  const user = await signInAs(gateway, "dev@example.com");
  expect(await user.callRejected("admin.groups.list")).toMatchObject({ status: 403, code: "forbidden" });
  expect(await user.callRejected("admin.config.export")).toMatchObject({ status: 403, code: "forbidden" });
});

describe("each switch is returned as it was saved, and its change is in the audit log:", () => {
  const listSwitches = ({ shape }: typeof accountForm | typeof groupForm) =>
    Object.entries(shape).flatMap(([name, field]) =>
      field instanceof z.ZodOptional && field.unwrap() instanceof z.ZodBoolean ? [name] : [],
    );
  const logged = async (target: string) => {
    const page = { after: null, limit: 1 };
    const { rows } = await listChanges(gateway.installation.db, { target }, page);
    return rows[0]?.changes.map(({ field }) => field);
  };

  // Only the configuration file can open a private network.
  test.each(listSwitches(accountForm).filter((name) => name !== "private_network"))(
    "account %s",
    async (name) => {
      const document = {
        name: `with ${name}`,
        kind: "openai" as const,
        base_url: "https://switches.example/v1",
      };
      const isOn = name === "enabled";
      await admin.call("admin.accounts.create", { body: { document } });
      const changed = { ...document, [name]: !isOn };
      const params = { name: document.name };
      const saved = await admin.call("admin.accounts.save", { params, body: { document: changed } });
      expect(saved.document).toMatchObject({ [name]: !isOn });
      expect(await logged(`account ${document.name}`)).toEqual([name]);
      await admin.call("admin.accounts.delete", { params });
    },
  );

  test.each(listSwitches(groupForm))("group %s", async (name) => {
    const isOn = name === "websocket";
    const document = { name: `with ${name}` };
    await admin.call("admin.groups.create", { body: document });
    const changed = { ...document, [name]: !isOn };
    const params = { name: document.name };
    const saved = await admin.call("admin.groups.save", { params, body: { document: changed } });
    expect(saved.document).toMatchObject({ [name]: !isOn });
    expect(await logged(`group ${document.name}`)).toEqual([name]);
    await admin.call("admin.groups.delete", { params });
  });
});
