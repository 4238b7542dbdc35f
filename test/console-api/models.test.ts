/** The models that the keys of a user can call, and the exact reason why a key cannot, on a running gateway. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const ADA = "ada@example.com";
/** Must not appear in any response to a user. */
const ACCOUNT = "secret-account-canary";

let gateway: PaidGateway;
let ada: SignedInClient;
let admin: SignedInClient;

beforeAll(async () => {
  const account = {
    name: ACCOUNT,
    kind: "openai",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the file's own variable
    base_url: "${SIMULATOR_URL}",
    private_network: true,
    models: { paid: "sim-fast", embed: "sim-embed" },
  };
  const broken = { ...account, name: `${ACCOUNT}-2`, models: { broken: "fault/401" } };
  const models = {
    paid: "sim-fast",
    embed: { upstream: "sim-embed", price: { input: "0.02" } },
    broken: "sim-fast",
  };
  gateway = await startPaidGateway({
    models,
    accounts: [account, broken],
    plans: [{ name: "pro", windows: [{ per: "day", usd: "5.00" }] }],
    users: [{ email: ADA }],
    groups: [
      {
        name: "free",
        interfaces: ["chat"],
        models: ["paid"],
        accounts: [ACCOUNT],
        limits: { rpm: 1 },
      },
      { name: "shaky", models: ["broken"], accounts: [`${ACCOUNT}-2`] },
      {
        name: "planned",
        models: ["paid"],
        accounts: [ACCOUNT],
        billing: { charge: "subscription", plans: ["pro"] },
      },
      { name: "inner", access: "members", models: ["embed"], accounts: [ACCOUNT] },
    ],
  });
  ada = await signInAs(gateway, ADA);
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

let made = 0;
async function makeKey(group: string, body: object = {}): Promise<{ id: string; secret: string }> {
  made += 1;
  const { key, secret } = await ada.call("keys.create", { body: { name: `key ${made}`, group, ...body } });
  return { id: key.id, secret };
}

function chat(secret: string, model = "paid"): Promise<Response> {
  const body = { model, messages: [{ role: "user", content: "Hello" }] };
  return gateway.call("/v1/chat/completions", body, { headers: { authorization: `Bearer ${secret}` } });
}

async function why(key: string, query: Record<string, string> = {}, asking = ada) {
  return asking.call("models.why", { query: { key, model: "paid", interface: "chat", ...query } });
}

/** The deciding step. */
async function reason(key: string, query: Record<string, string> = {}) {
  const { steps, allowed } = await why(key, query);
  const last = steps.at(-1);
  expect(last?.ok).toBe(allowed);
  return last;
}

describe("the model list", () => {
  test("has each model once per group, with interfaces, price and the keys that can call it", async () => {
    const { id } = await makeKey("free");
    const { data } = await ada.call("models.list");
    expect(data.map(({ id: model, group }) => `${model} in ${group}`)).toEqual([
      "broken in paying",
      "broken in shaky",
      "embed in paying",
      "paid in free",
      "paid in paying",
      "paid in planned",
    ]);
    const free = data.find(({ id: model, group }) => model === "paid" && group === "free");
    expect(free).toMatchObject({
      interfaces: ["chat"],
      charge: "none",
      now: { status: "available", frees_at: null },
      price: { tokens: { input: "2.50" } },
    });
    expect(free?.keys.some.map((key) => key.id)).toContain(id);
    const planned = data.find(({ group }) => group === "planned");
    expect(planned?.keys).toEqual({ count: 0, some: [] });
  });

  test("is searched, paged, and filtered by key", async () => {
    const { id } = await makeKey("free");
    const first = await ada.call("models.list", { query: { limit: 4 } });
    const rest = await ada.call("models.list", { query: { limit: 4, after: first.next ?? "" } });
    expect([...first.data, ...rest.data]).toHaveLength(6);
    expect(rest.next).toBeNull();
    expect((await ada.call("models.list", { query: { search: "EMB" } })).data.map((one) => one.id)).toEqual([
      "embed",
    ]);
    const ofKey = await ada.call("models.list", { query: { key: id } });
    expect(new Set(ofKey.data.map(({ group }) => group))).toEqual(new Set(["free"]));
  });

  test("shows a model as unavailable if its upstream rejects the gateway, without the account", async () => {
    const { id, secret } = await makeKey("shaky");
    expect((await chat(secret, "broken")).status).toBeGreaterThanOrEqual(500);
    expect(await (await ada.send("models.list")).text()).not.toContain(ACCOUNT);
    const { data } = await ada.call("models.list", { query: { key: id } });
    expect(data[0]?.now.status).toBe("unavailable");
    expect(await reason(id, { model: "broken" })).toMatchObject({ ok: false, reason: "unavailable" });
    const explanation = await why(id, { model: "broken" }, admin);
    expect(explanation.accounts).toContainEqual(
      expect.objectContaining({ name: `${ACCOUNT}-2`, reason: "parked" }),
    );
  });
});

describe("why a key can call a model", () => {
  test("lists every step of a request with its current state", async () => {
    const { id } = await makeKey("free");
    const { allowed, steps, accounts } = await why(id);
    expect(allowed).toBe(true);
    expect(steps.map(({ reason: found }) => found)).toEqual([
      "key_active",
      "group_found",
      "interface_included",
      "model_published",
      "model_serves_interface",
      "account_serves",
      "within_limits",
      "free_group",
      "available",
    ]);
    expect(accounts).toBeNull();
  });

  test("names accounts only to administrators", async () => {
    const { id } = await makeKey("free");
    const query = { key: id, model: "paid", interface: "chat" };
    expect(await (await ada.send("models.why", { query })).text()).not.toContain(ACCOUNT);
    const { accounts } = await why(id, {}, admin);
    expect(accounts).toContainEqual({
      name: ACCOUNT,
      sent_as: "sim-fast",
      translation: null,
      reason: null,
      frees_at: null,
    });
  });

  test("is not available for the key of another user", async () => {
    const { id } = await makeKey("free");
    const bob = await signInAs(gateway, "bob@example.com");
    const query = { key: id, model: "paid", interface: "chat" };
    expect(await bob.callRejected("models.why", { query })).toMatchObject({ status: 404 });
  });
});

describe("why a key cannot call a model", () => {
  test("the key is revoked or expired", async () => {
    const revoked = await makeKey("free");
    await ada.call("keys.revoke", { params: { id: revoked.id } });
    expect(await reason(revoked.id)).toMatchObject({ reason: "key_revoked" });
    const expired = await makeKey("free", { expires_at: Date.now() + 1_500 });
    await eventually(async () => (await reason(expired.id))?.reason, { equals: "key_expired" });
  });

  test("the group or the model lacks the interface", async () => {
    const free = await makeKey("free");
    expect(await reason(free.id, { interface: "images" })).toMatchObject({
      reason: "interface_not_included",
      facts: { interfaces: ["chat"] },
    });
  });

  test("the model is mistyped, or published in another group", async () => {
    const free = await makeKey("free");
    expect((await reason(free.id, { model: "piad" }))?.text).toContain("Did you mean paid?");
    const planned = await makeKey("planned");
    expect(await reason(planned.id, { model: "broken" })).toMatchObject({
      reason: "model_not_published",
      facts: { other_groups: ["paying", "shaky"] },
    });
  });

  test("an unknown model looks like an unpublished one, except to administrators", async () => {
    const { id } = await makeKey("free");
    expect(await reason(id, { model: "completely-other" })).toMatchObject({ reason: "model_not_published" });
    const explanation = await why(id, { model: "completely-other" }, admin);
    expect(explanation.steps.at(-1)?.reason).toBe("model_unknown");
  });

  test("a limit is exhausted: its scope and when it is free", async () => {
    const { id, secret } = await makeKey("free");
    expect((await chat(secret)).status).toBe(200);
    const refused = await chat(secret);
    expect(refused.status).toBe(429);
    const step = await reason(id);
    expect(step).toMatchObject({
      reason: "limit_used_up",
      facts: { scope: "key", unit: "requests", limit: "1", per_ms: 60_000 },
    });
    expect(step?.facts.frees_at).toBeGreaterThan(Date.now());
    expect(step?.text).toContain("1 requests per minute");
  });

  test("the balance is empty", async () => {
    const { id, secret } = await makeKey("paying");
    expect((await chat(secret)).status).toBe(429);
    expect(await reason(id)).toMatchObject({ reason: "balance_empty", facts: { available: "0.00" } });
  });

  test("the subscription is missing or exhausted", async () => {
    const { id, secret } = await makeKey("planned");
    expect(await reason(id)).toMatchObject({ reason: "subscription_missing", facts: { plans: ["pro"] } });
    await gateway.apply(JSON.stringify({ users: [{ email: ADA, subscriptions: [{ plan: "pro" }] }] }));
    expect(await reason(id)).toMatchObject({ reason: "available" });
    expect((await chat(secret)).status).toBe(200);
    // A plan that is reduced below its use is exhausted.
    await gateway.apply(
      JSON.stringify({ plans: [{ name: "pro", windows: [{ per: "day", usd: "0.000000001" }] }] }),
    );
    expect((await chat(secret)).status).toBe(429);
    const step = await reason(id);
    expect(step).toMatchObject({
      reason: "subscription_used_up",
      facts: { plans: ["pro"], available: "0.00" },
    });
    expect(step?.facts.frees_at).toBeGreaterThan(Date.now());
  });

  test("the owner is disabled", async () => {
    const { id } = await makeKey("free");
    await gateway.apply(JSON.stringify({ users: [{ email: ADA, status: "disabled" }] }));
    const explanation = await why(id, {}, admin);
    expect(explanation).toMatchObject({ allowed: false, steps: [{ reason: "owner_disabled" }] });
  });
});
