import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { endHolds, findHeldResponses, type Hold, insertHolds } from "../../store/money/holds.ts";
import { NO_FALLBACK, NO_MONEY, type UsageRow } from "../../store/usage/usage.ts";
import { insertUsage } from "../../store/usage/usage-row.test-support.ts";
import { openResponseRoutes, type ResponseRoute, type ResponseRouteOptions } from "./response-routes.ts";

let db: Db;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});

afterEach(() => db.close());

const route = (change: Partial<ResponseRoute> = {}): ResponseRoute => ({
  kind: "response",
  requestId: "req_1",
  keyId: "mine",
  accountId: "a1",
  publicModel: "fast",
  upstreamModel: "gpt-6",
  pending: false,
  ...change,
});

const row = (responseId: string, change: Partial<UsageRow> = {}): UsageRow => ({
  requestId: "req_1",
  requestCount: 1,
  atMs: 1_790_000_000_000,
  keyId: "mine",
  userId: null,
  groupId: "g1",
  accountId: "a1",
  interface: "responses",
  endpoint: "responses",
  publicModel: "fast",
  upstreamModel: "gpt-6",
  stream: false,
  status: 200,
  outcome: "completed",
  errorCode: null,
  inputTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  imageInputTokens: 0,
  audioInputTokens: 0,
  audioOutputTokens: 0,
  images: 0,
  webSearches: 0,
  ...NO_MONEY,
  ...NO_FALLBACK,
  usageSource: "none",
  attempts: 1,
  firstByteMs: null,
  durationMs: 1,
  waitMs: 0,
  trace: null,
  responseId,
  upstreamRequestId: null,
  ...change,
});

/** A hold before the account of its request is recorded. */
const hold: Hold = {
  requestId: "req_1",
  processId: "inc_1",
  state: "admitted",
  atMs: 1,
  userId: "u1",
  subscriptionId: null,
  amountNano: 1n,
  tariffId: "t1",
  keyId: "mine",
  groupId: "g1",
  accountId: null,
  interface: "responses",
  endpoint: "responses",
  publicModel: "fast",
  upstreamModel: null,
  stream: false,
  inputTokens: 1,
  outputTokens: 0,
};

const options = (store: Db): ResponseRouteOptions => ({
  rememberedMax: 10,
  threadRowsMax: 10,
  checkHeld: async (requestId) => !(await findHeldResponses(store, [requestId])).has(requestId),
});

describe("a stored response", () => {
  test("is found by the key that created it", async () => {
    const routes = openResponseRoutes(db, options(db));
    routes.add("resp_1", route());
    expect(await routes.find("resp_1", "mine")).toEqual(route());
  });

  test("is not visible to any other key, in memory or in the database", async () => {
    const routes = openResponseRoutes(db, options(db));
    routes.add("resp_1", route());
    await insertUsage(db, [row("resp_2")]);
    expect(await routes.find("resp_1", "other")).toBeNull();
    expect(await routes.find("resp_2", "other")).toBeNull();
    expect(await routes.find("resp_3", "mine")).toBeNull();
  });

  test("is found in the database if it is not in memory", async () => {
    await insertUsage(db, [row("resp_1", { outcome: "pending" })]);
    expect(await openResponseRoutes(db, options(db)).find("resp_1", "mine")).toEqual(
      route({ pending: true }),
    );
  });

  test("of Messages is found by the thread that continues it, and is no response of Responses", async () => {
    const message = route({ kind: "message" });
    const routes = openResponseRoutes(db, options(db));
    routes.add("msg_1", message);
    await insertUsage(db, [row("msg_2", { interface: "messages", endpoint: "messages" })]);
    for (const id of ["msg_1", "msg_2"]) {
      expect([id, await routes.findMessage(id, "mine")]).toEqual([id, message]);
      expect([id, await routes.findMessage(id, "other"), await routes.find(id, "mine")]).toEqual([
        id,
        null,
        null,
      ]);
    }
  });

  test("of Messages is not found behind many later requests of its key", async () => {
    const message = { interface: "messages", endpoint: "messages" } as const;
    const later = Array.from({ length: 10 }, (_, at) =>
      row(`msg_later_${at}`, { ...message, requestId: `req_later_${at}`, atMs: 1_790_000_000_001 + at }),
    );
    await insertUsage(db, [row("msg_1", message), ...later]);
    const routes = openResponseRoutes(db, options(db));
    expect(await routes.findMessage("msg_1", "mine")).toBeNull();
    expect(await routes.findMessage("msg_later_0", "mine")).toMatchObject({ requestId: "req_later_0" });
  });

  test("in progress is found by its hold, and has ended when the hold has ended", async () => {
    const { announce } = openResponseRoutes(db, options(db));
    expect(await announce("resp_1", "req_1", "a1", "gpt-6")).toBe(false);
    await insertHolds(db, [hold]);
    expect(await announce("resp_1", "req_1", "a1", "gpt-6")).toBe(true);
    const routes = openResponseRoutes(db, options(db));
    const found = await routes.find("resp_1", "mine");
    // The process that follows the response settles it.
    expect(found).toEqual({ ...route({ pending: false }), checkSettled: expect.any(Function) });
    expect(await found?.checkSettled?.()).toBe(false);
    expect(await routes.find("resp_1", "other")).toBeNull();
    await endHolds(db, ["req_1"]);
    expect(await found?.checkSettled?.()).toBe(true);
    expect(await routes.find("resp_1", "mine")).toBeNull();
  });

  test("is not found if the database has no account for it", async () => {
    await insertUsage(db, [row("resp_1", { accountId: null })]);
    expect(await openResponseRoutes(db, options(db)).find("resp_1", "mine")).toBeNull();
  });

  test("uses the public model name if the database has no upstream model", async () => {
    await insertUsage(db, [row("resp_1", { upstreamModel: null })]);
    expect((await openResponseRoutes(db, options(db)).find("resp_1", "mine"))?.upstreamModel).toBe("fast");
  });

  test("cannot be taken over by another key whose upstream returns the same id", async () => {
    const routes = openResponseRoutes(db, options(db));
    routes.add("resp_1", route());
    routes.add("resp_1", route({ keyId: "other", accountId: "a2" }));
    expect(await routes.find("resp_1", "mine")).toEqual(route());
    expect(await routes.find("resp_1", "other")).toBeNull();
  });

  test("has the last state that its own key recorded", async () => {
    const routes = openResponseRoutes(db, options(db));
    routes.add("resp_1", route({ pending: true }));
    routes.add("resp_1", route({ pending: false }));
    expect((await routes.find("resp_1", "mine"))?.pending).toBe(false);
  });

  test("is removed from memory on forget", async () => {
    const routes = openResponseRoutes(db, options(db));
    routes.add("resp_1", route());
    routes.remove("resp_1");
    expect(await routes.find("resp_1", "mine")).toBeNull();
  });

  test("is evicted from memory, least recently recorded first", async () => {
    const routes = openResponseRoutes(db, { ...options(db), rememberedMax: 2 });
    routes.add("resp_1", route());
    routes.add("resp_2", route());
    routes.add("resp_1", route());
    routes.add("resp_3", route());
    expect(await routes.find("resp_2", "mine")).toBeNull();
    expect(await routes.find("resp_1", "mine")).not.toBeNull();
    expect(await routes.find("resp_3", "mine")).not.toBeNull();
  });
});
