/** Usage in the console's API: for its users and for administrators. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { foldDay, startOfDay } from "../../src/store/usage/usage-day.ts";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { PAYER, type PaidGateway, PRICE, startPaidGateway } from "../support/paid-gateway.ts";

const OTHER_SECRET = "other-key-0123456789-0123456789-012345678";
const LIMITED_SECRET = "limited-key-0123456789-0123456789-0123456";

let gateway: PaidGateway;
let payer: SignedInClient;
let other: SignedInClient;
let admin: SignedInClient;

const ask = (model: string, secret?: string) =>
  gateway.call(
    "/v1/chat/completions",
    { model, messages: [{ role: "user", content: "Hello" }] },
    secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } },
  );

async function readId(response: Response): Promise<string> {
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

beforeAll(async () => {
  gateway = await startPaidGateway({
    balance: "5",
    models: { paid: "sim-fast", second: "sim-fast" },
    users: [{ email: "other@example.com" }],
    groups: [{ name: "free", interfaces: ["chat"], models: ["paid"], accounts: ["sim"] }],
    keys: [
      { name: "=cmd()", user: "other@example.com", group: "free", secret: OTHER_SECRET },
      {
        name: "limited",
        user: "other@example.com",
        group: "free",
        secret: LIMITED_SECRET,
        limits: { rpm: 1 },
      },
    ],
  });
  payer = await signInAs(gateway, PAYER);
  other = await signInAs(gateway, "other@example.com");
  admin = await signInAs(gateway, "admin@example.com", "admin");
});
afterAll(() => gateway.stop());

describe("a request of a free group", () => {
  test("shows its value at list prices line by line, and that nothing was charged", async () => {
    const id = await readId(await ask("paid", OTHER_SECRET));
    const request = await other.call("usage.request", { params: { id } });
    expect(request).toMatchObject({ payer: null, charged: "0.00" });
    expect(Number(request.cost)).toBeGreaterThan(0);
    const lines = request.calculation?.lines ?? [];
    expect(lines.map(({ unit }) => unit)).toEqual(["input", "output"]);
    const sum = lines.reduce((total, { cost }) => total + Number(cost), 0);
    expect(sum).toBeCloseTo(Number(request.cost), 9);
  });

  test("shows no calculation with prices that are not those of its time", async () => {
    const id = await readId(await ask("paid", OTHER_SECRET));
    const save = (price: object) =>
      admin.call("admin.models.save", {
        params: { id: "paid" },
        body: { id: "paid", interfaces: ["chat", "responses", "embeddings", "images"], price },
      });
    await save({ ...PRICE, input: "7" });
    expect((await other.call("usage.request", { params: { id } })).calculation).toBeNull();
    await save(PRICE);
    expect((await other.call("usage.request", { params: { id } })).calculation).not.toBeNull();
  });
});

describe("the tiles and the list", () => {
  test("count the same requests, rejected ones included", async () => {
    await readId(await ask("paid", LIMITED_SECRET));
    await readId(await ask("paid", LIMITED_SECRET));
    const { data } = await other.call("usage.requests", { query: { limit: 200 } });
    const { total } = await other.call("usage.chart", {});
    expect(total.refused).toBeGreaterThan(0);
    expect(data.filter(({ outcome }) => outcome === "refused")).toHaveLength(total.refused);
    expect(data).toHaveLength(total.requests + total.refused);
  });

  test("agree with every number that links to the list", async () => {
    await readId(await ask("paid", LIMITED_SECRET));
    await readId(await ask("unknown-model", LIMITED_SECRET));
    const { db } = gateway.installation;
    const dayMs = startOfDay(Date.now());
    const count = async (query: object) =>
      (await admin.call("usage.requests", { query: { whose: "everybody", limit: 200, ...query } })).data
        .length;
    // The list writes pending rows.
    await count({});
    await foldDay(db, dayMs, dayMs);
    const [group] = (await admin.call("admin.groups.list", { query: { search: "free" } })).data;
    expect(group?.requests_last_day).toBe(await count({ group: "free" }));
    const { data: models } = await admin.call("admin.models.list", {});
    expect(models.find(({ document }) => document.id === "paid")?.requests_last_day).toBe(
      await count({ model: "paid" }),
    );
    const { data: users } = await admin.call("admin.users.list", {});
    const user = "other@example.com";
    expect(users.find(({ email }) => email === user)?.requests_30d).toBe(await count({ user }));
    const key = (await other.call("keys.list", {})).data.find(({ name }) => name === "limited");
    const ofKey = await count({ key: key?.id });
    expect(key?.usage.requests).toBe(ofKey);
    expect(key?.usage.requests_by_day.at(-1)).toBe(ofKey);
    expect(ofKey).toBeGreaterThan(1);
    // A name that only rejected requests contain is not among those that spent most.
    const { models: spenders } = await admin.call("admin.dashboard.get", { query: { range: "day" } });
    expect(spenders.find(({ id }) => id === "paid")?.requests).toBe(await count({ model: "paid" }));
    expect(spenders.map(({ id }) => id)).not.toContain("unknown-model");
  });

  test("report a first token that is not later than the end for every request", async () => {
    const { data } = await admin.call("usage.requests", { query: { whose: "everybody", limit: 200 } });
    const timed = data.filter(({ first_byte_ms: first }) => first !== null);
    expect(timed.length).toBeGreaterThan(0);
    for (const one of timed) expect(Number(one.first_byte_ms)).toBeLessThanOrEqual(one.duration_ms);
  });
});

describe("a request that was just served", () => {
  test("is in the list and the chart of its user at once, with tokens and cost", async () => {
    const id = await readId(await ask("paid"));
    const { data } = await payer.call("usage.requests");
    expect(data[0]).toMatchObject({ id, model: "paid", outcome: "completed", status: 200 });
    expect(Number(data[0]?.cost)).toBeGreaterThan(0);
    const chart = await payer.call("usage.chart", { query: { by: "model" } });
    expect(chart.total.requests).toBe(data.length);
    expect(chart.ranking.map(({ label }) => label)).toContain("paid");
    expect(chart.points.reduce((sum, { requests }) => sum + requests, 0)).toBe(chart.total.requests);
  });

  test("is visible to its user and to administrators only", async () => {
    const id = await readId(await ask("paid"));
    expect(await other.callRejected("usage.request", { params: { id } })).toMatchObject({
      code: "not_found",
    });
    const listed = await other.call("usage.requests");
    expect(listed.data.map((one) => one.id)).not.toContain(id);
    expect((await admin.call("usage.requests")).data).toEqual([]);
    const all = await admin.call("usage.requests", { query: { whose: "everybody" } });
    expect(all.data.find((one) => one.id === id)).toMatchObject({ user: PAYER, account: "sim" });
  });

  test("is in the charts of all users, of its user, its group and its account", async () => {
    await readId(await ask("second"));
    for (const query of [
      { whose: "everybody" },
      { user: PAYER },
      { user: payer.user.id },
      { group: "paying" },
      { account: "sim" },
    ]) {
      const chart = await admin.call("usage.chart", {
        query: { ...query, by: "model", granularity: "hour" },
      });
      expect([query, chart.ranking.some(({ id }) => id === "second")]).toEqual([query, true]);
      expect(chart.total.upstream_cost).toBeString();
    }
    const byUser = await admin.call("usage.chart", { query: { whose: "everybody", by: "user" } });
    expect(byUser.ranking.map(({ label }) => label)).toContain(PAYER);
  });
});

describe("users who are not administrators", () => {
  test("cannot query the usage of other users", async () => {
    for (const query of [{ whose: "everybody" }, { user: PAYER }, { account: "sim" }, { by: "user" }]) {
      const [param = ""] = Object.keys(query);
      expect(await other.callRejected("usage.chart", { query })).toMatchObject({ code: "forbidden", param });
    }
    const { data } = await payer.call("usage.requests");
    const keyId = data[0]?.key.id ?? "";
    expect(await other.callRejected("usage.requests", { query: { key: keyId } })).toMatchObject({
      status: 404,
    });
    expect(await other.callRejected("usage.requests", { query: { group: "paying" } })).toMatchObject({
      status: 404,
    });
  });

  test("get no information about accounts", async () => {
    const id = await readId(await ask("paid"));
    const whole = JSON.stringify([
      await payer.call("usage.request", { params: { id } }),
      await payer.call("usage.requests"),
      await payer.call("usage.choices"),
      await (await payer.send("usage.export")).text(),
    ]);
    expect(whole).not.toContain("sim");
    expect(whole).not.toContain("upstream_");
  });
});

describe("the inspector", () => {
  test("shows the timeline and a price whose lines add up to the cost", async () => {
    const id = await readId(await ask("paid"));
    const request = await payer.call("usage.request", { params: { id } });
    expect(request.steps.map(({ kind }) => kind)).toEqual(["checks", "attempt", "response"]);
    expect(request.steps.at(-1)?.to_ms).toBe(request.duration_ms);
    const lines = request.calculation?.lines ?? [];
    const sum = lines.reduce((all, { cost }) => all + Math.round(Number(cost) * 1e9), 0);
    expect(sum).toBe(Math.round(Number(request.cost) * 1e9));
    expect(lines.map(({ unit }) => unit)).toEqual(["input", "output"]);
    expect(request).toMatchObject({ payer: "balance", rejection: null });
  });

  test("names the account to administrators", async () => {
    const id = await readId(await ask("paid"));
    const request = await admin.call("usage.request", { params: { id } });
    expect(request.steps.find(({ kind }) => kind === "attempt")).toMatchObject({ account: "sim" });
  });

  test("shows the error message of a rejected request", async () => {
    await readId(await ask("paid", LIMITED_SECRET));
    const refused = await ask("paid", LIMITED_SECRET);
    const rejection = (await refused.json()) as { error: { message: string } };
    const id = refused.headers.get("x-request-id") ?? "";
    const request = await other.call("usage.request", { params: { id } });
    expect(request).toMatchObject({
      status: 429,
      outcome: "refused",
      error_code: "rate_limit_exceeded",
      rejection: rejection.error.message,
    });
  });
});

describe("filters", () => {
  test("select by model, outcome, status and time, in the list and in the file", async () => {
    await readId(await ask("second"));
    await readId(await ask("no-such-model"));
    const query = { status: "4", outcome: "refused", model: "no-such-model" };
    const { data } = await payer.call("usage.requests", { query });
    expect(data.length).toBeGreaterThan(0);
    expect(new Set(data.map(({ error_code }) => error_code))).toEqual(new Set(["model_not_found"]));
    const file = await (await payer.send("usage.export", { query })).text();
    expect(file.trim().split("\r\n")).toHaveLength(data.length + 1);
    const none = await payer.call("usage.requests", { query: { to_at: 1_000 } });
    expect(none).toEqual({ data: [], next: null });
  });

  test("reject an invalid range and an invalid page", async () => {
    const later = { from_at: Date.now() + 90 * 86_400_000 };
    expect(await payer.callRejected("usage.chart", { query: later })).toMatchObject({ param: "from_at" });
    expect(await payer.callRejected("usage.chart", { query: { from_at: 0 } })).toMatchObject({
      param: "from_at",
    });
    expect(await payer.callRejected("usage.requests", { query: { after: "x" } })).toMatchObject({
      param: "after",
    });
  });
});

test("a name that is a spreadsheet formula is escaped in the file", async () => {
  await readId(await ask("paid", OTHER_SECRET));
  const response = await other.send("usage.export");
  expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  const file = await response.text();
  expect(file).toContain(",'=cmd(),");
  expect(file).not.toContain(",=cmd()");
});
