import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { findWrongRollUps } from "../../store/checks/hourly-rollups.ts";
import { listUsage } from "../../store/reports/usage-list.ts";
import { keyTotals, type UsageRow } from "../../store/usage/usage.ts";
import { UsageNumbers } from "../../store/usage/usage-numbers.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import { book } from "./booking.ts";
import { type RejectionRowLimits, RejectionRows, withoutUsageRow } from "./rejection-rows.ts";

/** A time within a minute. */
const NOW_MS = 1_790_000_000_000;
const MINUTE_MS = 60_000;

function open(change: Partial<RejectionRowLimits> = {}) {
  const written: UsageRow[] = [];
  const push = (row: UsageRow) => void written.push(row);
  const rejections = new RejectionRows(push, {
    rowsPerMinute: 3,
    kindsMax: 100,
    modelsPerHour: 50,
    ...change,
  });
  const record = (row: UsageRow) => {
    if (!rejections.addToCounted(row)) push(row);
  };
  return { rejections, record, written };
}

const refused = (change: Partial<UsageRow> = {}): UsageRow =>
  usageRow({
    atMs: NOW_MS,
    status: 429,
    outcome: "refused",
    errorCode: "rate_limit_exceeded",
    durationMs: 2,
    attempts: 0,
    usageSource: "none",
    inputTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    trace: '{"refusal":"Slow down."}',
    ...change,
  });

test("the first rejections of a minute have their own rows, the others share a counted row", () => {
  const { rejections, record, written } = open();
  const rows = Array.from({ length: 10 }, (_, i) => refused({ atMs: NOW_MS + i }));
  for (const row of rows) record(row);
  expect(written).toEqual(rows.slice(0, 3));
  rejections.writeCounted();
  const first = rows[3] ?? refused();
  expect(written.slice(3)).toEqual([{ ...first, requestCount: 7, atMs: NOW_MS + 9, durationMs: 14 }]);
  rejections.writeCounted();
  expect(written).toHaveLength(4);
});

test("the rows of one user name a bounded number of models in an hour", () => {
  const { rejections, record, written } = open({ rowsPerMinute: 1_000, modelsPerHour: 10 });
  // Several keys of one user, and several minutes.
  for (let i = 0; i < 300; i++)
    record(
      refused({
        userId: "user_1",
        keyId: `key_${i % 3}`,
        publicModel: `made-up-${i}`,
        atMs: NOW_MS + Math.floor(i / 100) * MINUTE_MS,
      }),
    );
  record(refused({ userId: "user_1", publicModel: "made-up-3" }));
  record(refused({ userId: "user_2", publicModel: "made-up-200" }));
  rejections.writeCounted();
  const named = (userId: string) => {
    const rows = written.filter((row) => row.userId === userId);
    return [new Set(rows.map(({ publicModel }) => publicModel)).size, countRequests(rows)];
  };
  // Ten names, and none for the others.
  expect(named("user_1")).toEqual([11, 301]);
  expect(named("user_2")).toEqual([1, 1]);
  expect(written.filter(({ publicModel }) => publicModel === "").every(({ trace }) => trace === null)).toBe(
    true,
  );
});

function countRequests(rows: readonly UsageRow[]): number {
  return rows.reduce((sum, { requestCount }) => sum + requestCount, 0);
}

test("a new minute writes the counted rows of the previous one and starts again", () => {
  const { rejections, record, written } = open();
  for (let i = 0; i < 5; i++) record(refused());
  for (let i = 0; i < 5; i++) record(refused({ atMs: NOW_MS + MINUTE_MS }));
  rejections.writeCounted();
  expect(written.map(({ requestCount }) => requestCount)).toEqual([1, 1, 1, 2, 1, 1, 1, 2]);
});

test("counted rows are written when their minute ends, with or without another request", async () => {
  const { record, written } = open({ rowsPerMinute: 0 });
  const endMs = (Math.floor(NOW_MS / MINUTE_MS) + 1) * MINUTE_MS;
  for (let i = 0; i < 5; i++) record(refused({ atMs: endMs - 50 }));
  expect(written).toEqual([]);
  await eventually(() => (written.length === 0 ? null : true));
  expect(written.map(({ requestCount }) => requestCount)).toEqual([5]);
});

test("models and endpoints that a caller chooses do not multiply the rows of a kind", () => {
  const { rejections, record, written } = open();
  for (let i = 0; i < 50; i++) {
    const endpoint = i % 2 === 0 ? "chat.completions" : "embeddings";
    record(refused({ publicModel: `made-up-${i}`, endpoint, stream: i % 3 === 0 }));
  }
  rejections.writeCounted();
  // One counted row per endpoint. With several models, neither the model nor the trace of the first request is kept.
  expect(written.slice(3)).toMatchObject([
    { endpoint: "embeddings", requestCount: 24, publicModel: "", trace: null },
    { endpoint: "chat.completions", requestCount: 23, publicModel: "", trace: null },
  ]);
});

test("keys, statuses and error codes are counted separately", () => {
  const { rejections, record, written } = open({ rowsPerMinute: 0 });
  for (let i = 0; i < 2; i++) {
    record(refused());
    record(refused({ keyId: "k2" }));
    record(refused({ status: 404, errorCode: "model_not_found" }));
    record(refused({ errorCode: "insufficient_quota" }));
  }
  rejections.writeCounted();
  expect(written.map(({ requestCount }) => requestCount)).toEqual([2, 2, 2, 2]);
});

test("a request that used something or reached an account always has its own row", () => {
  const { rejections, written, record } = open({ rowsPerMinute: 0 });
  const rows = [
    refused({ outcome: "failed", attempts: 1 }),
    refused({ outcome: "client_gone", usageSource: "partial", inputTokens: 5 }),
    refused({ outcome: "client_gone", upstreamNano: 7n }),
    refused({ outcome: "completed" }),
  ];
  for (const row of rows) record(row);
  expect(written).toEqual(rows);
  expect(rejections.addToCounted(refused({ outcome: "client_gone", status: 499 }))).toBe(true);
});

test("with too many kinds, counted rows are written early, so that memory is bounded", () => {
  const { rejections, record, written } = open({ rowsPerMinute: 0, kindsMax: 10 });
  for (let i = 0; i < 100; i++) record(refused({ keyId: `k${i}` }));
  expect(written).toHaveLength(90);
  rejections.writeCounted();
  expect(written).toHaveLength(100);
});

eachEngine(({ open: openStore }) => {
  test("a counted row of disconnected clients counts all its requests", async () => {
    const db = await openStore();
    const { rejections, record, written } = open();
    for (let i = 0; i < 50; i++) record(refused({ outcome: "client_gone", status: 499 }));
    rejections.writeCounted();
    await insertUsage(db, written);
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 50, refused: 0 });
    expect(await findWrongRollUps(db, 10)).toEqual([]);
    await db.close();
  });

  test("a row with a count of zero is not stored", async () => {
    const db = await openStore();
    await insertUsage(db, [withoutUsageRow(refused()), refused({ requestId: "stored" })]);
    const { rows } = await listUsage(db, {}, { after: null, limit: 10 });
    expect(rows.map(({ requestId }) => requestId)).toEqual(["stored"]);
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 0, refused: 1 });
    expect(await findWrongRollUps(db, 10)).toEqual([]);
    await db.close();
  });

  test("a counted row is stored next to the settlement of its first request", async () => {
    const db = await openStore();
    const first = refused({ requestId: "first" });
    const counted = { ...first, requestCount: 40 };
    const options = {
      processId: "one",
      nowMs: NOW_MS,
      checkExisting: false,
      storedTariffs: new Set<string>(),
      isAbandoned: () => false,
    };
    const batch = { holds: [], releases: [], progress: [], rows: [counted] };
    const settlements = [{ row: withoutUsageRow(first), chargedNano: 0n }];
    await new UsageNumbers().within(db, (tx, numbering) =>
      book(tx, { ...batch, settlements }, { ...options, numbering }),
    );
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 0, refused: 40 });
    expect(await findWrongRollUps(db, 10)).toEqual([]);
    await db.close();
  });

  test("sums, lists and the audit count every rejection of a counted row", async () => {
    const db = await openStore();
    const { rejections, record, written } = open();
    for (let i = 0; i < 5_000; i++) record(refused());
    rejections.writeCounted();
    await insertUsage(db, [...written, usageRow({ atMs: NOW_MS })]);
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 1, refused: 5_000 });
    const { rows } = await listUsage(db, { outcome: "refused" }, { after: null, limit: 10 });
    expect(rows.map(({ requestCount }) => requestCount).sort()).toEqual([1, 1, 1, 4_997]);
    expect(await findWrongRollUps(db, 10)).toEqual([]);
    await db.sql`UPDATE usage_row SET request_count = request_count + 1 WHERE request_count > 1`;
    expect(await findWrongRollUps(db, 10)).toHaveLength(1);
    await db.close();
  });
});
