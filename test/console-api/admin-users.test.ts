import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { insertRows } from "../../src/store/engine/insert-rows.ts";
import { createTokenClient, type SignedInClient, signInAs } from "../support/console-client.ts";
import { PAYER, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";

let gateway: PaidGateway;
let admin: SignedInClient;
let payerId: string;
beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "10.00",
    plans: [{ name: "pro", windows: [{ per: "day", usd: "5.00" }] }],
    groups: [{ name: "vip", access: "members", models: ["paid"], accounts: ["sim"] }],
  });
  admin = await signInAs(gateway, "root@example.com", "admin");
  payerId = (await signInAs(gateway, PAYER)).user.id;
});
afterAll(() => gateway.stop());

const HELLO = [{ role: "user", content: "hello" }];

const emails = async (query: Record<string, string | number> = {}) =>
  (await admin.call("admin.users.list", { query })).data.map(({ email }) => email);

describe("users", () => {
  test("are listed with their balance, keys and role", async () => {
    const { data } = await admin.call("admin.users.list", { query: { search: "PAYER" } });
    expect(data).toMatchObject([
      { email: PAYER, role: "user", status: "active", balance: "10.00", keys: 1, has_second_factor: false },
    ]);
    // Logs and exports have the id only.
    expect(await emails({ search: data[0]?.id ?? "" })).toEqual([PAYER]);
  });

  test("become administrators only through a session, not through a token", async () => {
    const program = await createTokenClient(gateway, "root@example.com", "admin", "admin");
    const made = await program.call("admin.users.create", { body: { email: "made@example.com" } });
    const params = { id: made.id };
    const rejection = { status: 403, code: "forbidden", param: "role" };
    expect(
      await program.callRejected("admin.users.create", { body: { email: "x@example.com", role: "admin" } }),
    ).toMatchObject(rejection);
    expect(
      await program.callRejected("admin.users.change", { params, body: { role: "admin" } }),
    ).toMatchObject(rejection);
    const text = "users: [{ email: made@example.com, role: admin, password: a-password-of-mine }]";
    const { plan } = await program.call("admin.config.plan", { body: { text } });
    expect(await program.callRejected("admin.config.apply", { body: { text, plan } })).toMatchObject({
      code: "forbidden",
    });
    expect(await program.callRejected("admin.users.remove_second_factor", { params })).toMatchObject({
      code: "forbidden",
    });
    expect(await admin.call("admin.users.get", { params })).toMatchObject({
      role: "user",
      has_password: false,
    });
    await program.call("admin.users.delete", { params });
  });

  test("are created, updated and deleted like with the file", async () => {
    const made = await admin.call("admin.users.create", {
      body: { email: "New@Example.com", groups: ["vip"], limits: { rpm: 10 } },
    });
    expect(made).toMatchObject({ email: "new@example.com", groups: ["vip"], limits: { rpm: 10 } });
    expect(
      await admin.callRejected("admin.users.create", { body: { email: "new@example.com" } }),
    ).toMatchObject({
      status: 409,
      param: "email",
    });
    expect(
      await admin.callRejected("admin.users.create", { body: { email: "x@example.com", groups: ["nope"] } }),
    ).toMatchObject({ status: 400, param: "groups[0]" });
    const params = { id: made.id };
    const changed = await admin.call("admin.users.change", { params, body: { role: "admin" } });
    expect(changed).toMatchObject({ role: "admin", groups: ["vip"], limits: { rpm: 10 } });
    const disabled = await admin.call("admin.users.change", {
      params,
      body: { status: "disabled", groups: [] },
    });
    expect(disabled).toMatchObject({ status: "disabled", groups: [], role: "admin" });
    expect(await emails({ status: "disabled" })).toEqual(["new@example.com"]);
    expect(await admin.call("admin.users.change", { params, body: { status: "active" } })).toMatchObject({
      status: "active",
    });
    await admin.call("admin.users.delete", { params });
    expect(await admin.callRejected("admin.users.get", { params })).toMatchObject({ status: 404 });
    const { data } = await admin.call("admin.audit.list", { query: { target: "user new@example.com" } });
    expect(data.map(({ action }) => action)).toEqual([
      "user.remove",
      "user.change",
      "user.change",
      "user.change",
      "user.create",
    ]);
  });

  test("with a balance cannot be deleted", async () => {
    expect(await admin.callRejected("admin.users.delete", { params: { id: payerId } })).toMatchObject({
      message: expect.stringContaining("still has a balance of $10.00"),
    });
  });

  test("cannot remove their own rights", async () => {
    const params = { id: admin.user.id };
    for (const body of [{ role: "user" }, { status: "disabled" }])
      expect(await admin.callRejected("admin.users.change", { params, body })).toMatchObject({ status: 409 });
    expect(await admin.callRejected("admin.users.delete", { params })).toMatchObject({ status: 409 });
  });

  test("that are disabled cannot use their keys", async () => {
    const params = { id: payerId };
    const call = () => gateway.call("/v1/chat/completions", { model: "paid", messages: HELLO });
    expect((await call()).status).toBe(200);
    await admin.call("admin.users.change", { params, body: { status: "disabled" } });
    expect((await call()).status).toBe(401);
    await admin.call("admin.users.change", { params, body: { status: "active" } });
    expect((await call()).status).toBe(200);
  });
});

describe("money", () => {
  const wallet = () => gateway.records.wallet();

  test("is adjusted with a reason, once per idempotency key, and recorded in the audit log", async () => {
    const params = { id: payerId };
    const before = (await wallet()).balanceNano;
    const body = { amount: "-1.50", reason: "wrong invoice", idempotency_key: "k-1" };
    const booked = await admin.call("admin.money.adjust", { params, body });
    expect(booked).toMatchObject({ amount: "1.50", repeated: false });
    expect(await admin.call("admin.money.adjust", { params, body })).toMatchObject({
      entry_id: booked.entry_id,
      repeated: true,
    });
    expect((await wallet()).balanceNano).toBe(before - 1_500_000_000n);
    expect(
      await admin.callRejected("admin.money.adjust", { params, body: { ...body, amount: "2.00" } }),
    ).toMatchObject({ status: 409 });
    const { data } = await admin.call("admin.audit.list", { query: { action: "wallet.adjust" } });
    expect(data).toHaveLength(1);
    expect(data[0]?.changes).toContainEqual({ field: "reason", from: null, to: "wrong invoice" });
    const ledger = await admin.call("wallet.ledger", { query: { user: payerId } });
    expect(ledger.data[0]).toMatchObject({ kind: "adjust", amount: "-1.50", reason: "wrong invoice" });
    await gateway.records.expectReconciled();
  });

  test("is moved once per Idempotency-Key header", async () => {
    const params = { id: payerId };
    const headers = { "idempotency-key": "invoice-8" };
    const before = (await wallet()).balanceNano;
    const body = { amount: "5.00", provider: "invoice", reason: "invoice 8" };
    const booked = await admin.call("admin.money.top_up", { params, body, headers });
    expect(booked).toMatchObject({ amount: "5.00", repeated: false });
    expect(await admin.call("admin.money.top_up", { params, body, headers })).toMatchObject({
      entry_id: booked.entry_id,
      repeated: true,
    });
    // The field of the body is the same key.
    const { provider: _, ...rest } = body;
    const adjusted = { params, body: { ...rest, idempotency_key: "invoice-8" } };
    expect(await admin.callRejected("admin.money.adjust", adjusted)).toMatchObject({ status: 409 });
    const other = { params, body: { ...rest, idempotency_key: "invoice-9" }, headers };
    expect(await admin.callRejected("admin.money.adjust", other)).toMatchObject({
      status: 400,
      param: "idempotency_key",
    });
    const bad = { params, body, headers: { "idempotency-key": "two words" } };
    expect(await admin.callRejected("admin.money.top_up", bad)).toMatchObject({ status: 400 });
    expect((await wallet()).balanceNano).toBe(before + 5_000_000_000n);
  });

  test("is topped up, and a request is refunded", async () => {
    const params = { id: payerId };
    await admin.call("admin.money.top_up", {
      params,
      body: { amount: "20", provider: "invoice", reason: "invoice 7" },
    });
    const response = await gateway.call("/v1/chat/completions", { model: "paid", messages: HELLO });
    await response.text();
    const requestId = response.headers.get("x-request-id") ?? "";
    const charge = await gateway.records.charge(requestId);
    expect(
      await admin.call("admin.money.refund", { params: { id: requestId }, body: { reason: "bad answer" } }),
    ).toMatchObject({ repeated: false });
    expect(charge?.amountNano).toBeGreaterThan(0n);
    expect(
      await admin.callRejected("admin.money.refund", {
        params: { id: requestId },
        body: { reason: "again" },
      }),
    ).toMatchObject({ status: 409 });
    await gateway.records.expectReconciled();
  });

  test.each([
    [{ amount: "0", reason: "x" }, "The amount"],
    [{ amount: "1e3", reason: "x" }, "amount"],
    [{ amount: "-100000", reason: "x" }, "available"],
    [{ amount: "1", reason: " " }, "must not be empty"],
    [{ amount: "1", reason: "a\nb" }, "one line"],
  ])("is not moved by %j", async (body, says) => {
    const before = await wallet();
    const { message } = await admin.callRejected("admin.money.adjust", { params: { id: payerId }, body });
    expect(message).toContain(says);
    expect(await wallet()).toEqual(before);
  });
});

describe("the support view", () => {
  test("shows rejected requests with their reason and no secret, and is recorded in the audit log", async () => {
    await (await gateway.call("/v1/chat/completions", { model: "no-such-model", messages: HELLO })).text();
    const view = await admin.call("admin.users.support", { params: { id: payerId } });
    expect(view.rejections).toContainEqual(
      expect.objectContaining({ model: "no-such-model", code: "model_not_found", key: "test", status: 404 }),
    );
    const keys = await admin.call("keys.list", { query: { user: payerId } });
    expect(keys.data).toMatchObject([{ name: "test" }]);
    expect(JSON.stringify([view, keys])).not.toContain("test-key-0123456789");
    const { data } = await admin.call("admin.audit.list", { query: { action: "user.support_view" } });
    expect(data[0]).toMatchObject({ target: `user ${PAYER}`, actor: "root@example.com" });
  });
});

test("a list of 100,000 users is read in pages, in order, and searched", async () => {
  const { db } = gateway.installation;
  const rows = Array.from({ length: 100_000 }, (_, i) => {
    const email = `bulk-${String(i).padStart(6, "0")}@example.com`;
    return [`user_bulk_${i}`, email, email, "user", 1];
  });
  await db.begin("write", (tx) =>
    insertRows(tx, "app_user", ["id", "email", "email_folded", "role", "created_at_ms"], rows),
  );
  const first = await admin.call("admin.users.list", { query: { search: "bulk-", limit: 200 } });
  expect(first.data).toHaveLength(200);
  const second = await admin.call("admin.users.list", {
    query: { search: "bulk-", limit: 200, after: first.next ?? "" },
  });
  expect(second.data[0]?.email).toBe("bulk-000200@example.com");
  expect(await emails({ search: "bulk-09999" })).toHaveLength(10);
  expect(await emails({ search: "100%_" })).toEqual([]);
});
