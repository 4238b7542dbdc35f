/** Fallback steps through the console's API: editing, explaining, and what owners of keys may change. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;
let owner: SignedInClient;

const PRICE = `price: { input: "1", output: "2" }`;
const FILE = `
models:
  - { id: fast, interfaces: [chat], ${PRICE}, fallback: [{ model: slow, when: [too_long] }] }
  - { id: slow, interfaces: [chat], ${PRICE} }
accounts:
  - { name: sim, kind: openai, base_url: "\${SIMULATOR_URL}", credential: secret-of-the-upstream, private_network: true, models: { fast: sim-fast, slow: sim-fast } }
  - { name: bad, kind: openai, base_url: "\${SIMULATOR_URL}", credential: secret-of-the-upstream, private_network: true, models: { fast: fault/500 } }
groups:
  - { name: broken, models: [fast], accounts: [bad], fallback: [{ group: working, when: [failing] }] }
  - { name: working, models: [fast], accounts: [sim] }
  - name: saver
    models: [fast, slow]
    accounts: [sim]
    fallback: [{ group: standard, when: [busy, failing], max_price: "2.5", leave_after: 3s, stay: 10m }]
  - { name: standard, models: [fast, slow], accounts: [sim], billing: { charge: balance } }
keys: [{ name: anonymous, group: saver, fallback: deny }]
`;

beforeAll(async () => {
  gateway = await startTestGateway({ file: FILE });
  admin = await signInAs(gateway, "ops@example.com", "admin");
  owner = await signInAs(gateway, "ada@example.com", "user");
});

afterAll(() => gateway.stop());

const saver = { params: { name: "saver" } };

test("a group is returned with its steps, and saved again without a change", async () => {
  const { document } = await admin.call("admin.groups.get", saver);
  expect(document.fallback).toEqual([
    { group: "standard", when: ["busy", "failing"], max_price: "2.5", leave_after: "3s", stay: "10m" },
  ]);
  await admin.call("admin.groups.save", { ...saver, body: { document } });
  expect((await admin.call("admin.groups.get", saver)).document).toEqual(document);
});

test("a wrong step names its field", async () => {
  const { document } = await admin.call("admin.groups.get", saver);
  const save = (change: object) => {
    const fallback = [{ group: "standard", when: ["busy"], ...change }];
    return admin.callRejected("admin.groups.save", {
      ...saver,
      body: { document: { ...document, fallback } },
    });
  };
  expect(await save({ group: "saver" })).toMatchObject({ status: 400, param: "fallback[0].group" });
  expect(await save({ when: [] })).toMatchObject({ param: "fallback[0].when" });
  expect(await save({ leave_after: "31s" })).toMatchObject({ param: "fallback[0].leave_after" });
  const model = { id: "fast", interfaces: ["chat"], fallback: [{ model: "gone", when: ["busy"] }] };
  expect(
    await admin.callRejected("admin.models.save", { params: { id: "fast" }, body: model }),
  ).toMatchObject({ status: 400, param: "fallback[0].model" });
});

test("a target is neither deleted nor emptied", async () => {
  const params = { name: "standard" };
  expect(await admin.callRejected("admin.groups.delete", { params })).toMatchObject({
    status: 400,
    message: expect.stringContaining(
      '"standard" is the target of step 1 of the fallback of the group "saver"',
    ),
  });
  expect(await admin.callRejected("admin.models.delete", { params: { id: "slow" } })).toMatchObject({
    message: expect.stringContaining('"slow" is the target of step 1 of the fallback of the model "fast"'),
  });
  const { document } = await admin.call("admin.groups.get", { params });
  const without = { params, body: { document: { ...document, models: ["slow"] } } };
  expect(await admin.callRejected("admin.groups.save", without)).toMatchObject({
    message: expect.stringContaining("does not publish fast"),
  });
});

test("the chain of a key is explained, with what keeps requests from a step", async () => {
  const { key } = await owner.call("keys.create", { body: { name: "ci", group: "saver" } });
  expect(key.fallback).toBe("allow");
  const query = { key: key.id, model: "fast", interface: "chat" };
  const { fallback } = await owner.call("models.why", { query });
  expect(fallback).toEqual([
    {
      step: 1,
      group: "standard",
      model: "fast",
      when: ["busy", "failing"],
      charge: "balance",
      max_price: "2.5",
      leave_after_ms: 3_000,
      stay_ms: 600_000,
      obstacle: null,
    },
    expect.objectContaining({ step: 2, group: "saver", model: "slow", obstacle: "window_unknown" }),
  ]);
  const responses = await owner.call("models.why", { query: { ...query, interface: "responses" } });
  expect(responses.fallback.map(({ obstacle }) => obstacle)).toEqual([
    "model_not_published",
    "model_not_published",
  ]);
  await owner.call("keys.edit", { params: { id: key.id }, body: { fallback: "deny" } });
  const denied = await owner.call("models.why", { query });
  expect(denied.fallback.map(({ obstacle }) => obstacle)).toEqual(["denied_by_key", "denied_by_key"]);
});

test("owners may deny fallback, and only an administrator allows it again", async () => {
  const { key } = await owner.call("keys.create", {
    body: { name: "strict", group: "saver", fallback: "deny" },
  });
  expect(key.fallback).toBe("deny");
  const edit = (fallback: string) => ({ params: { id: key.id }, body: { fallback } });
  expect(await owner.callRejected("keys.edit", edit("allow"))).toMatchObject({
    code: "invalid_value",
    param: "fallback",
  });
  expect(await owner.call("keys.edit", { params: { id: key.id }, body: { name: "stricter" } })).toMatchObject(
    {
      fallback: "deny",
    },
  );
  expect(await admin.call("keys.edit", edit("allow"))).toMatchObject({ fallback: "allow" });
});

test("a key without a user cannot be allowed a step that charges", async () => {
  const [row] = await gateway.installation.db.sql`SELECT id FROM api_key WHERE name = 'anonymous'`;
  const id = String(row?.id);
  expect(
    await admin.callRejected("keys.edit", { params: { id }, body: { fallback: "allow" } }),
  ).toMatchObject({
    param: "fallback",
    message: expect.stringContaining("needs a user"),
  });
});

test("the page of a request names what it asked for, and what became of each step", async () => {
  const { secret } = await owner.call("keys.create", { body: { name: "moved", group: "broken" } });
  const response = await gateway.call(
    "/v1/chat/completions",
    { model: "fast", messages: [{ role: "user", content: "Hi" }] },
    { headers: { authorization: `Bearer ${secret}` } },
  );
  expect(response.status).toBe(200);
  const id = response.headers.get("x-request-id") ?? "";
  expect(await owner.call("usage.request", { params: { id } })).toMatchObject({
    group: "working",
    model: "fast",
    fallback: { requested_group: "broken", requested_model: "fast", step: 1, reason: "failing" },
    fallback_steps: [
      { step: 0, group: "broken", model: "fast", result: "failed", reason: "failing" },
      { step: 1, group: "working", model: "fast", result: "served" },
    ],
  });
});
