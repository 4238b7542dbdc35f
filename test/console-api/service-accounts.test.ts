/** Service accounts on a running gateway: tokens, top-ups within bounds, and files that they apply. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { applyChanges, planChanges } from "../../src/config/plan/apply.ts";
import {
  type ConsoleClient,
  createServiceClient,
  openConsoleClient,
  type SignedInClient,
  signInAs,
} from "../support/console-client.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

let gateway: RunningGateway;
let admin: SignedInClient;
let payer: SignedInClient;

beforeAll(async () => {
  gateway = await startTestGateway();
  admin = await signInAs(gateway, "root@example.com", "admin");
  payer = await signInAs(gateway, "payer@example.com");
});
afterAll(() => gateway.stop());

let orders = 0;
function order(amount: string, key = `order-${++orders}`) {
  const body = { amount, provider: "stripe", reason: "payment" };
  return { params: { id: payer.user.id }, body, headers: { "idempotency-key": key } };
}

/** A service account of its own, so that tests do not share a day. */
let accounts = 0;
function openBilling(): Promise<ConsoleClient & { secret: string }> {
  return createServiceClient(gateway, `billing-${++accounts}`, ["wallet.top_up", "wallet.read"]);
}

describe("a service account with wallet.top_up", () => {
  test("tops up a wallet, by the id or the address of the user, and is named by the audit log", async () => {
    const billing = await openBilling();
    const before = Number((await payer.call("wallet.get")).balance);
    await billing.call("admin.money.top_up", order("10.00"));
    await billing.call("admin.money.top_up", { ...order("5.00"), params: { id: "Payer@example.com" } });
    expect(Number((await payer.call("wallet.get")).balance)).toBe(before + 15);
    const [entry] = (await admin.call("admin.audit.list", { query: { action: "wallet.top_up" } })).data;
    expect(entry).toMatchObject({ actor_kind: "service", actor: `billing-${accounts}` });
    expect(entry?.actor_id).toStartWith("svc_");
    expect((await admin.call("admin.audit.verify", { query: { fresh: true } })).broken).toEqual([]);
  });

  test("needs an Idempotency-Key, and a repeated key books and counts once", async () => {
    const billing = await openBilling();
    const { headers: _, ...without } = order("1.00");
    expect(await billing.callRejected("admin.money.top_up", without)).toMatchObject({
      status: 400,
      code: "missing_required_parameter",
      param: "idempotency_key",
    });
    const same = order("400.00");
    for (const repeated of [false, true, true])
      expect((await billing.call("admin.money.top_up", same)).repeated).toBe(repeated);
    await billing.call("admin.money.top_up", order("500.00"));
    // 900 of 1000 are used.
    expect((await billing.callRejected("admin.money.top_up", order("101.00"))).message).toContain(
      "$100.00 of $1000.00",
    );
    await billing.call("admin.money.top_up", order("100.00"));
  });

  test("cannot exceed the bound of a call; nothing is booked or counted", async () => {
    const billing = await openBilling();
    const { balance } = await payer.call("wallet.get");
    expect(await billing.callRejected("admin.money.top_up", order("500.01"))).toMatchObject({
      status: 403,
      code: "bound_exceeded",
      param: "amount",
    });
    expect((await payer.call("wallet.get")).balance).toBe(balance);
    await billing.call("admin.money.top_up", order("500.00"));
    await billing.call("admin.money.top_up", order("500.00"));
  });

  test("cannot exceed the bound of a day by many requests at once", async () => {
    const billing = await openBilling();
    const sent = await Promise.all(
      Array.from({ length: 20 }, () => billing.send("admin.money.top_up", order("100.00"))),
    );
    const codes = sent.map(({ status }) => status);
    expect(codes.filter((status) => status === 200)).toHaveLength(10);
    expect(codes.filter((status) => status === 403)).toHaveLength(10);
  });

  test("rejects negative amounts, and moves money in no other way", async () => {
    const billing = await openBilling();
    expect((await billing.callRejected("admin.money.top_up", order("-5.00"))).status).toBe(400);
    expect((await billing.callRejected("admin.money.adjust", order("5.00"))).code).toBe("forbidden");
  });
});

describe("a service account with wallet.read", () => {
  test("reads the wallet and ledger of a user that it names", async () => {
    const reader = await createServiceClient(gateway, "reader", ["wallet.read"]);
    expect((await reader.call("wallet.get", { query: { user: payer.user.id } })).currency).toBe("USD");
    const ledger = await reader.call("wallet.ledger", { query: { user: "payer@example.com" } });
    expect(ledger.data.every(({ kind }) => kind === "topup")).toBe(true);
    expect((await reader.callRejected("wallet.get")).param).toBe("user");
    expect((await reader.callRejected("wallet.get", { query: { user: "no@example.com" } })).code).toBe(
      "not_found",
    );
  });
});

describe("tokens of a service account", () => {
  const body = { scopes: ["wallet.read"], bounds: null, expires_at: null };
  const query = { user: "payer@example.com" };
  const open = (secret: string) => openConsoleClient(gateway.url, { authorization: `Bearer ${secret}` });

  async function create(name: string, overlapMs: number): Promise<string> {
    const sent = { params: { name }, body: { overlap_ms: overlapMs } };
    return (await admin.call("admin.service_accounts.create_token", sent)).secret;
  }

  test("are shown once, rotated with an overlap, and listed by their last characters", async () => {
    const params = { name: "rotated" };
    await admin.call("admin.service_accounts.save", { params, body });
    const first = await create("rotated", 0);
    const second = await create("rotated", 3_600_000);
    await open(first).call("wallet.get", { query });
    await open(second).call("wallet.get", { query });
    const third = await create("rotated", 0);
    expect((await open(first).callRejected("wallet.get", { query })).code).toBe("sign_in_required");
    expect((await open(second).callRejected("wallet.get", { query })).code).toBe("sign_in_required");
    const { data } = await admin.call("admin.service_accounts.list", { query: { search: "rotated" } });
    expect(data[0]?.tokens.map(({ last4 }) => last4)).toEqual([third.slice(-4)]);
    expect(JSON.stringify(data)).not.toContain(third);
  });

  test("end when they are revoked, when the account expires, and when it is deleted", async () => {
    const params = { name: "ended" };
    await admin.call("admin.service_accounts.save", { params, body });
    const revoked = await create("ended", 0);
    expect(await admin.call("admin.service_accounts.revoke_tokens", { params })).toEqual({ revoked: 1 });
    const expired = await create("ended", 0);
    await admin.call("admin.service_accounts.save", { params, body: { ...body, expires_at: 1 } });
    const deleted = await create("ended", 0);
    await admin.call("admin.service_accounts.save", { params, body });
    await open(deleted).call("wallet.get", { query });
    await admin.call("admin.service_accounts.delete", { params });
    for (const secret of [revoked, expired, deleted])
      expect((await open(secret).callRejected("wallet.get", { query })).code).toBe("sign_in_required");
  });

  test("lose a scope at once", async () => {
    const params = { name: "narrowed" };
    await admin.call("admin.service_accounts.save", { params, body });
    const client = open(await create("narrowed", 0));
    await admin.call("admin.service_accounts.save", { params, body: { ...body, scopes: ["config.apply"] } });
    expect((await client.callRejected("wallet.get", { query })).message).toContain("`wallet.read`");
  });
});

describe("the rules of a service account", () => {
  const save = (values: object) =>
    admin.callRejected("admin.service_accounts.save", { params: { name: "wrong" }, body: values });

  test("wallet.top_up needs bounds, and other scopes have none", async () => {
    const bounds = { usd_per_call: "5", usd_per_day: "50" };
    expect((await save({ scopes: ["wallet.top_up"] })).param).toBe("bounds");
    expect((await save({ scopes: ["wallet.read"], bounds })).param).toBe("bounds");
    const reversed = { usd_per_call: "50", usd_per_day: "5" };
    expect((await save({ scopes: ["wallet.top_up"], bounds: reversed })).param).toBe("bounds.usd_per_day");
  });

  test("keys.write needs config.apply, scim is alone, and a scope is needed", async () => {
    expect((await save({ scopes: ["keys.write"] })).param).toBe("scopes");
    expect((await save({ scopes: [] })).param).toBe("scopes");
    expect((await save({ scopes: ["scim", "config.apply"] })).param).toBe("scopes");
  });
});

describe("a service account with config.apply", () => {
  const MODEL = "models: [{ id: ci-model, interfaces: [chat] }]";

  async function apply(client: ConsoleClient, text: string, prune = false) {
    const { plan, changes, problems } = await client.call("admin.config.plan", { body: { text, prune } });
    if (plan === null) return { changes, problems, keys: [] };
    return { problems, ...(await client.call("admin.config.apply", { body: { text, prune, plan } })) };
  }

  test("applies models, accounts, groups and plans, as an exported file with users does", async () => {
    const ci = await createServiceClient(gateway, "ci", ["config.apply"]);
    const { changes } = await apply(ci, MODEL);
    expect(changes).toMatchObject([{ kind: "create", what: "model ci-model" }]);
    const { text } = await admin.call("admin.config.export");
    expect(text).toContain("users:");
    expect((await apply(ci, text)).changes).toEqual([]);
    const [entry] = (await admin.call("admin.audit.list", { query: { action: "model." } })).data;
    expect(entry).toMatchObject({ actor_kind: "service", actor: "ci", target: "model ci-model" });
  });

  test("creates keys only with keys.write, and receives their secrets", async () => {
    const text = "keys: [{ name: from-ci, user: payer@example.com, group: default }]";
    const ci = await createServiceClient(gateway, "ci", ["config.apply"]);
    expect(await ci.callRejected("admin.config.plan", { body: { text } })).toMatchObject({
      code: "not_in_scope",
      param: "keys[0]",
    });
    const both = await createServiceClient(gateway, "ci with keys", ["config.apply", "keys.write"]);
    expect((await apply(both, text)).keys[0]?.secret).toStartWith("gwk_");
  });

  test("prunes only what it may change", async () => {
    const ci = await createServiceClient(gateway, "ci", ["config.apply"]);
    await apply(ci, MODEL);
    const { text } = await admin.call("admin.config.export");
    const without = text
      .replace(/^(users|keys|service_accounts):\n(?: .*\n)*/gm, "")
      .replace(/^ *- id: ci-model\n(?: {4}.*\n)*/m, "");
    expect(without).not.toContain("users:");
    const { changes } = await apply(ci, without, true);
    expect(changes.map(({ kind, what }) => `${kind} ${what}`)).toEqual(["remove model ci-model"]);
    expect((await admin.call("admin.users.list")).data.length).toBeGreaterThan(1);
  });

  test("applies an exported file with sign-in, a directory and settings for tools", async () => {
    const source = {
      text: `
sign_in: { password: admins, providers: [{ name: corp, issuer: "https://login.example.com", client_id: x, client_secret: s3cret-of-corp }] }
scim: { provider: corp }
tool_sign_in: { claude_code: { managed_settings: { default: ./claude.json } } }`,
      fileName: "gateway.yaml",
      environment: {},
      readFile: () => "{}",
    };
    const planned = await planChanges(gateway.installation, source, { prune: false });
    if (!planned.ok) throw new Error(JSON.stringify(planned.problems));
    await applyChanges(gateway.installation, planned.plan);
    const ci = await createServiceClient(gateway, "ci", ["config.apply"]);
    const { text } = await admin.call("admin.config.export");
    expect(text).toContain("password: admins");
    const { changes, problems } = await apply(
      ci,
      `${text}\nplans: [{ name: ci-plan, windows: [{ per: day, usd: "5" }] }]`,
    );
    expect(problems).toEqual([]);
    expect(changes.map(({ what }) => what)).toEqual(["plan ci-plan"]);
    expect(
      (
        await ci.callRejected("admin.config.plan", {
          body: { text: text.replace("password: admins", "password: allowed") },
        })
      ).code,
    ).toBe("not_in_scope");
  });
});
