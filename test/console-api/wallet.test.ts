/** The wallet of a user through the console's API on a running gateway. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createCodes } from "../../src/billing/operations/redeem.ts";
import { parseUsd } from "../../src/money/nano.ts";
import { listChanges } from "../../src/store/audit-log/audit-log.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

const ADA = "ada@example.com";

let gateway: PaidGateway;
let ada: SignedInClient;
let admin: SignedInClient;

beforeAll(async () => {
  const subscriptions = [
    { plan: "big", priority: 2 },
    { plan: "small", priority: 1 },
  ];
  gateway = await startPaidGateway({
    models: { paid: "sim-fast", slow: "sim-fast@first=30s" },
    group: { on_disconnect: "cancel" },
    plans: [
      { name: "small", windows: [{ per: "day", usd: "1.00" }] },
      { name: "big", windows: [{ per: "month", usd: "50.00", counted: "rolling" }] },
    ],
    users: [{ email: ADA, balance: "10.00", subscriptions }],
    groups: [
      { name: "planned", models: ["paid"], accounts: ["sim"], billing: { charge: "subscription" } },
      { name: "inner", access: "members", models: ["paid"], accounts: ["sim"] },
    ],
  });
  ada = await signInAs(gateway, ADA);
  admin = await signInAs(gateway, "root@example.com", "admin");
});
afterAll(() => gateway.stop());

function chat(secret: string, model = "paid", signal?: AbortSignal): Promise<Response> {
  const body = { model, messages: [{ role: "user", content: "Hello" }] };
  const headers = { authorization: `Bearer ${secret}` };
  return gateway.call("/v1/chat/completions", body, signal === undefined ? { headers } : { headers, signal });
}

async function keyIn(group: string): Promise<string> {
  const { secret } = await ada.call("keys.create", {
    body: { name: `in ${group} ${performance.now()}`, group },
  });
  return secret;
}

let batches = 0;
async function code(usd: string): Promise<string> {
  batches += 1;
  const value = { kind: "money", amountNano: parseUsd(usd) } as const;
  const order = { name: `batch ${batches}`, count: 1, value, expiresAtMs: null, actor: "test" };
  const [made = ""] = await createCodes(gateway.installation, order);
  return made;
}

describe("the wallet", () => {
  test("shows a charge as soon as the response arrives", async () => {
    const before = await ada.call("wallet.get");
    expect(before).toMatchObject({ currency: "USD", balance: "10.00", held: "0.00", available: "10.00" });
    await (await chat(await keyIn("paying"))).text();
    const { balance, held } = await ada.call("wallet.get");
    expect(Number(balance)).toBeLessThan(10);
    expect(held).toBe("0.00");
  });

  test("lists subscriptions in the order in which they pay, with the rest of each window", async () => {
    await (await chat(await keyIn("planned"))).text();
    const { subscriptions } = await ada.call("wallet.get");
    expect(subscriptions.map(({ plan }) => plan)).toEqual(["small", "big"]);
    const [window] = subscriptions[0]?.windows ?? [];
    expect(window).toMatchObject({ per: "day", counted: "calendar", limit: "1.00" });
    expect(Number(window?.used)).toBeGreaterThan(0);
    expect(Number(window?.remaining)).toBeLessThan(1);
    expect(window?.resets_at).toBeGreaterThan(Date.now());
  });

  test("shows what pays for every group in which the user has or can create keys", async () => {
    const { payers } = await ada.call("wallet.get");
    expect(payers.map(({ group, charge, plans }) => [group, charge, plans])).toEqual([
      ["paying", "balance", []],
      ["planned", "subscription", ["small", "big"]],
    ]);
  });

  test("lists the hold of an in-flight request, which reduces the available amount", async () => {
    const secret = await keyIn("paying");
    const leaving = new AbortController();
    const under = chat(secret, "slow", leaving.signal).catch(() => null);
    const [hold] = await eventually(async () => {
      const { data } = await ada.call("wallet.holds");
      return data.length > 0 ? data : null;
    });
    expect(hold).toMatchObject({ paid_by: "balance", model: "slow" });
    const { balance, held, available } = await ada.call("wallet.get");
    expect(held).toBe(hold?.amount ?? "");
    expect(Number(available)).toBeCloseTo(Number(balance) - Number(held), 9);
    leaving.abort();
    await under;
    await eventually(async () => (await ada.call("wallet.holds")).data.length, { equals: 0 });
  });

  test("is visible to its user and to administrators only", async () => {
    const bob = await signInAs(gateway, "bob@example.com");
    expect(await bob.call("wallet.get")).toMatchObject({ balance: "0.00", subscriptions: [] });
    const query = { user: ada.user.id };
    for (const name of ["wallet.get", "wallet.ledger", "wallet.holds"] as const)
      expect(await bob.callRejected(name, { query })).toMatchObject({ status: 403, param: "user" });
    expect((await admin.call("wallet.get", { query })).subscriptions).toHaveLength(2);
  });
});

describe("the ledger", () => {
  test("is paged, newest first, with negative amounts for charges", async () => {
    const eve = await signInAs(gateway, "eve@example.com");
    for (const usd of ["1.00", "2.00", "3.00"])
      await eve.call("wallet.redeem", { body: { code: await code(usd) } });
    const first = await eve.call("wallet.ledger", { query: { limit: 2 } });
    const rest = await eve.call("wallet.ledger", { query: { limit: 2, after: first.next ?? "" } });
    const amounts = [...first.data, ...rest.data].map(({ amount, kind }) => `${kind} ${amount}`).sort();
    expect(amounts).toEqual(["redeem 1.00", "redeem 2.00", "redeem 3.00"]);
    expect(rest.next).toBeNull();
    const { data } = await ada.call("wallet.ledger");
    const charge = data.find(({ kind, paid_by }) => kind === "charge" && paid_by === "balance");
    expect(charge?.amount).toStartWith("-0.");
    expect(charge?.request_id).toStartWith("req_");
    expect(data.some(({ kind, paid_by }) => kind === "charge" && paid_by === "subscription")).toBe(true);
  });
});

describe("redeeming a code", () => {
  test("adds the money at once, is recorded in the audit log, and works once", async () => {
    const frank = await signInAs(gateway, "frank@example.com");
    const made = await code("2.50");
    expect(await frank.call("wallet.redeem", { body: { code: ` ${made.toLowerCase()} ` } })).toMatchObject({
      amount: "2.50",
      plan: null,
      balance: "2.50",
    });
    expect(await frank.callRejected("wallet.redeem", { body: { code: made } })).toMatchObject({
      code: "conflict",
    });
    const { rows } = await listChanges(
      gateway.installation.db,
      { action: "code.redeem", actorId: frank.user.id },
      { after: null, limit: 9 },
    );
    expect(rows.map(({ changes }) => changes)).toEqual([[{ field: "balance", from: null, to: "+$2.50" }]]);
    expect(JSON.stringify(rows)).not.toContain(made);
  });

  test("is throttled after too many invalid codes, and valid codes do not count", async () => {
    const gina = await signInAs(gateway, "gina@example.com");
    for (let i = 0; i < 12; i += 1) await gina.call("wallet.redeem", { body: { code: await code("0.01") } });
    for (let i = 0; i < 10; i += 1)
      expect(await gina.callRejected("wallet.redeem", { body: { code: "nonsense" } })).toMatchObject({
        status: 400,
      });
    expect(await gina.callRejected("wallet.redeem", { body: { code: await code("0.01") } })).toMatchObject({
      status: 429,
      code: "rate_limit_exceeded",
    });
    const henry = await signInAs(gateway, "henry@example.com");
    expect((await henry.call("wallet.redeem", { body: { code: await code("0.01") } })).amount).toBe("0.01");
  });
});
