/** Redeem codes, plans, subscriptions, the audit log and the dashboard of a running gateway. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { PAYER, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { payload } from "../support/sse-text.ts";

let gateway: PaidGateway;
let admin: SignedInClient;
let payer: SignedInClient;
beforeAll(async () => {
  gateway = await startPaidGateway({ balance: "10.00" });
  admin = await signInAs(gateway, "root@example.com", "admin");
  payer = await signInAs(gateway, PAYER);
});
afterAll(() => gateway.stop());

/** Reads the events of an endless stream one by one. */
function readEvents(response: Response) {
  const reader = (response.body ?? new ReadableStream<Uint8Array>()).getReader();
  const decoder = new TextDecoder();
  let text = "";
  return {
    async next(): Promise<Record<string, unknown>> {
      for (let end = text.indexOf("\n\n"); end === -1; end = text.indexOf("\n\n")) {
        const { value, done } = await reader.read();
        if (done) throw new Error("the stream has ended");
        text += decoder.decode(value, { stream: true });
      }
      const end = text.indexOf("\n\n");
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      return payload({ type: null, data: event.replace(/^data: /, "") });
    },
    close: () => reader.cancel(),
  };
}

const PRO = { name: "pro", time_zone: "UTC", windows: [{ per: "day", usd: "5.00" }] };

describe("plans and subscriptions", () => {
  test("a plan is created, updated, granted and revoked", async () => {
    const params = { name: "pro" };
    await admin.call("admin.plans.save", { params, body: PRO });
    const windows = [{ per: "day", usd: "7.50" }];
    const changed = await admin.call("admin.plans.save", { params, body: { ...PRO, windows } });
    expect(changed.windows).toEqual([{ per: "day", usd: "7.50", counted: "calendar" }]);
    const granted = await admin.call("admin.subscriptions.grant", { body: { email: PAYER, plan: "pro" } });
    expect(granted).toMatchObject({
      email: PAYER,
      standing: "running",
      windows: [{ per: "day", limit: "7.50" }],
    });
    expect((await admin.call("admin.plans.list")).data).toMatchObject([{ name: "pro", subscriptions: 1 }]);
    expect((await admin.call("admin.subscriptions.list", { query: { search: "payer" } })).data).toHaveLength(
      1,
    );
    const id = { id: granted.id };
    expect(
      await admin.callRejected("admin.subscriptions.cancel", { params: id, body: { when: "term_end" } }),
    ).toMatchObject({ status: 409, param: "when" });
    const cancelled = await admin.call("admin.subscriptions.cancel", { params: id, body: {} });
    expect(cancelled.standing).toBe("cancelled");
    expect(await admin.callRejected("admin.subscriptions.cancel", { params: id, body: {} })).toMatchObject({
      status: 409,
    });
    expect(await admin.callRejected("admin.plans.delete", { params })).toMatchObject({
      status: 409,
      message: expect.stringContaining("still has subscription"),
    });
  });

  test("a plan is granted once per idempotency key, and the key cannot be reused", async () => {
    await admin.call("admin.plans.save", { params: { name: "once" }, body: { ...PRO, name: "once" } });
    const headers = { "idempotency-key": "order-1" };
    const body = { email: PAYER, plan: "once" };
    const granted = await admin.call("admin.subscriptions.grant", { body, headers });
    expect(await admin.call("admin.subscriptions.grant", { body, headers })).toEqual(granted);
    const inBody = { ...body, idempotency_key: "order-1" };
    expect(await admin.call("admin.subscriptions.grant", { body: inBody })).toEqual(granted);
    const other = { body: { ...body, priority: 2 }, headers };
    expect(await admin.callRejected("admin.subscriptions.grant", other)).toMatchObject({ status: 409 });
    const money = { amount: "1", provider: "invoice", reason: "an invoice" };
    const params = { id: granted.user_id };
    expect(await admin.callRejected("admin.money.top_up", { params, body: money, headers })).toMatchObject({
      status: 409,
    });
    await admin.call("admin.money.top_up", {
      params,
      body: money,
      headers: { "idempotency-key": "order-2" },
    });
    const second = { body, headers: { "idempotency-key": "order-2" } };
    expect(await admin.callRejected("admin.subscriptions.grant", second)).toMatchObject({ status: 409 });
    const { data } = await admin.call("admin.subscriptions.list", { query: { plan: "once" } });
    expect(data).toHaveLength(1);
    await admin.call("admin.subscriptions.cancel", { params: { id: granted.id }, body: {} });
    const again = await admin.call("admin.subscriptions.grant", { body, headers });
    expect(again).toMatchObject({ id: granted.id, standing: "cancelled" });
  });

  test("an unused plan can be deleted, and an invalid plan is rejected at its field", async () => {
    const params = { name: "short" };
    const wrong = { ...PRO, name: "short", time_zone: "Mars/Base" };
    expect(await admin.callRejected("admin.plans.save", { params, body: wrong })).toMatchObject({
      status: 400,
      param: "time_zone",
    });
    await admin.call("admin.plans.save", { params, body: { ...PRO, name: "short" } });
    await admin.call("admin.plans.delete", { params });
    expect(await admin.callRejected("admin.plans.delete", { params })).toMatchObject({ status: 404 });
  });
});

describe("redeem codes", () => {
  test("are shown once, redeemed by users, and withdrawn", async () => {
    const made = await admin.call("admin.codes.create", {
      body: { name: "spring", count: 3, amount: "2.50" },
    });
    expect(made.codes).toHaveLength(3);
    const redeemed = await payer.call("wallet.redeem", { body: { code: made.codes[0] } });
    expect(redeemed).toMatchObject({ amount: "2.50", plan: null });
    expect((await admin.call("admin.codes.list")).data).toMatchObject([
      { name: "spring", amount: "2.50", codes: 3, redeemed: 1, open: 2, created_by: "root@example.com" },
    ]);
    const params = { name: "spring" };
    const { data } = await admin.call("admin.codes.get", { params });
    expect(data.find(({ status }) => status === "redeemed")).toMatchObject({ redeemed_by: PAYER });
    for (const code of made.codes) expect(JSON.stringify(data)).not.toContain(code);
    const one = data.find(({ status }) => status === "open")?.id ?? "";
    expect(await admin.call("admin.codes.void", { params, body: { code: one } })).toEqual({ voided: 1 });
    expect(await admin.call("admin.codes.void", { params, body: {} })).toEqual({ voided: 1 });
    expect(await admin.callRejected("admin.codes.void", { params, body: {} })).toMatchObject({ status: 409 });
  });

  test("can be worth a plan", async () => {
    const { codes } = await admin.call("admin.codes.create", {
      body: { name: "trial", count: 1, plan: "pro", days: 14 },
    });
    const redeemed = await payer.call("wallet.redeem", { body: { code: codes[0] } });
    expect(redeemed).toMatchObject({ amount: null, plan: "pro" });
    const { subscriptions } = await payer.call("wallet.get");
    expect(subscriptions).toMatchObject([{ plan: "pro", standing: "running" }]);
  });

  test.each([
    [{ name: "x", count: 1 }, "amount"],
    [{ name: "x", count: 1, amount: "1", plan: "pro", days: 1 }, "amount"],
    [{ name: "x", count: 1, plan: "pro" }, "days"],
    [{ name: "x", count: 0, amount: "1" }, "count"],
    [{ name: " x", count: 1, amount: "1" }, "name"],
  ])("are rejected for %j", async (body, param) => {
    expect(await admin.callRejected("admin.codes.create", { body })).toMatchObject({ status: 400, param });
  });
});

describe("the audit log", () => {
  test("is filtered, paged, verified and exported", async () => {
    const first = await admin.call("admin.audit.list", { query: { action: "codes.", limit: 2 } });
    expect(first.data).toHaveLength(2);
    const rest = await admin.call("admin.audit.list", {
      query: { action: "codes.", limit: 2, after: first.next ?? "" },
    });
    expect(rest.data[0]?.seq).toBeLessThan(first.data[1]?.seq ?? 0);
    const chain = await admin.call("admin.audit.verify");
    expect(chain.broken).toEqual([]);
    expect(chain.entries).toBeGreaterThan(5);
    const file = await admin.fetch("/api/admin/audit/export?action=codes.create");
    expect(file.headers.get("content-disposition")).toContain("audit.ndjson");
    const lines = (await file.text()).trim().split("\n");
    expect(lines.map((line) => JSON.parse(line).action)).toEqual(["codes.create", "codes.create"]);
  });

  test("detects a manipulated entry", async () => {
    const { db } = gateway.installation;
    await db.sql`UPDATE audit SET target = 'plan other' WHERE seq = 2`;
    const query = { fresh: true };
    expect((await admin.call("admin.audit.verify", { query })).broken).toContainEqual({
      seq: 2,
      kind: "changed",
    });
  });
});

describe("the dashboard", () => {
  test("updates while requests run and names the account that serves them", async () => {
    const leave = new AbortController();
    const response = await admin.fetch("/api/admin/dashboard/live", { signal: leave.signal });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const frames = readEvents(response);
    const first = await frames.next();
    expect(first).toMatchObject({
      in_flight: 0,
      waiting: 0,
      accounts: [{ name: "sim", condition: "untried" }],
    });
    await Promise.all(
      Array.from({ length: 5 }, () =>
        gateway
          .call("/v1/chat/completions", { model: "paid", messages: [{ role: "user", content: "hi" }] })
          .then((received) => received.text()),
      ),
    );
    const moved = await eventually(async () => {
      const frame = await frames.next();
      return Number(frame.requests_per_s) > 0 ? frame : null;
    });
    expect(Number(moved.tokens_per_s)).toBeGreaterThan(0);
    leave.abort();
  });

  test("shows the cost of today, with hourly charts", async () => {
    const frames = readEvents(await admin.fetch("/api/admin/dashboard/live"));
    const spent = await eventually(async () => {
      const { spent_today } = await frames.next();
      return Number(spent_today) > 0 ? spent_today : null;
    });
    expect(spent).toMatch(/^\d+\.\d{2,9}$/);
    frames.close();
    const charts = await admin.call("admin.dashboard.get", { query: { range: "day" } });
    expect(charts.granularity).toBe("hour");
    expect(charts.to - charts.from).toBe(86_400_000);
  });

  test("is for administrators only", async () => {
    expect((await payer.fetch("/api/admin/dashboard/live")).status).toBe(403);
  });
});

test("an open dashboard stream does not delay the shutdown of the gateway", async () => {
  const other = await startPaidGateway({}, { limits: { drainTimeoutMs: 60_000 } });
  const root = await signInAs(other, "root@example.com", "admin");
  const frames = readEvents(await root.fetch("/api/admin/dashboard/live"));
  await frames.next();
  await other.stop();
  expect(
    await eventually(() =>
      frames.next().then(
        () => false,
        (error: Error) => error.message,
      ),
    ),
  ).toBe("the stream has ended");
});
