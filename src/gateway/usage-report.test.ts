import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { openLog } from "../observe/log.ts";
import { compileSnapshot } from "../policy/snapshot.ts";
import { DEFAULT_QUEUE, NO_BILLING, NO_LIMITS } from "../records.ts";
import { type Db, openDb } from "../store/db.ts";
import { migrate } from "../store/migrate.ts";
import type { UsageRow } from "../store/usage.ts";
import type { Caller } from "./authenticate.ts";
import { openUsageWriter, type UsageWriter } from "./settle.ts";
import { reportUsage } from "./usage-report.ts";

const MIDNIGHT_MS = Date.parse("2026-09-01T00:00:00Z");
const NOW_MS = MIDNIGHT_MS + 5 * 3_600_000;

let db: Db;
let usage: UsageWriter;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  usage = openUsageWriter({
    db,
    log: openLog(
      () => 0,
      () => {},
    ),
    gatherMs: 3_600_000,
    batchRowsMax: 100,
    waitingRowsMax: 100,
    retryMs: 0,
  });
});

afterEach(() => db.close());

function caller(expiresAtMs: number | null = null): Caller {
  const record = {
    id: "g1",
    name: "team",
    interfaces: ["chat" as const, "images" as const],
    models: [],
    accounts: [],
    billing: NO_BILLING,
    onDisconnect: "cancel" as const,
    limits: NO_LIMITS,
    groupLimits: NO_LIMITS,
    queue: DEFAULT_QUEUE,
    createdAtMs: 1,
  };
  const snapshot = compileSnapshot(
    { models: [], accounts: [], groups: [record] },
    { simulatorUrl: null, unseal: () => null },
  );
  const group = snapshot.groups.get("g1");
  if (!group) throw new Error("the group is not in the snapshot");
  const key = {
    id: "k1",
    name: "laptop",
    publicId: "AbCd1234",
    userId: null,
    groupId: "g1",
    expiresAtMs,
    limits: NO_LIMITS,
    userLimits: NO_LIMITS,
    createdAtMs: 1_790_000_000_999,
  };
  return { key, group };
}

let requests = 0;
const row = (change: Partial<UsageRow> = {}): UsageRow => ({
  requestId: `req_${++requests}`,
  atMs: NOW_MS,
  keyId: "k1",
  userId: null,
  groupId: "g1",
  accountId: "a1",
  interface: "chat",
  endpoint: "chat.completions",
  publicModel: "fast",
  upstreamModel: "up",
  stream: false,
  status: 200,
  outcome: "completed",
  errorCode: null,
  inputTokens: 10,
  cachedTokens: 4,
  cacheWriteTokens: 0,
  outputTokens: 5,
  reasoningTokens: 2,
  images: 1,
  usageSource: "upstream",
  attempts: 1,
  firstByteMs: 1,
  durationMs: 2,
  waitMs: 0,
  trace: null,
  responseId: null,
  upstreamRequestId: null,
  ...change,
});

function report(who = caller()) {
  return reportUsage({ clock: { nowMs: () => NOW_MS, monotonicMs: () => 0 }, db, usage }, who);
}

const NOTHING = {
  requests: 0,
  failed_requests: 0,
  refused_requests: 0,
  input_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  total_tokens: 0,
  images: 0,
};

describe("what a key has used", () => {
  test("is nothing at first, and says whose key it is", async () => {
    expect(await report()).toEqual({
      object: "gateway.usage",
      key: { id: "AbCd1234", name: "laptop", created_at: 1_790_000_000, expires_at: null },
      group: { name: "team", interfaces: ["chat", "images"] },
      usage: { today: { since: MIDNIGHT_MS / 1000, ...NOTHING }, total: NOTHING },
      isValid: true,
      planName: "team",
    });
    expect((await report(caller(1_800_000_000_500))).key.expires_at).toBe(1_800_000_000);
  });

  test("counts what was just recorded and is still on its way to the store", async () => {
    usage.push(row());
    expect((await report()).usage.total).toEqual({
      requests: 1,
      failed_requests: 0,
      refused_requests: 0,
      input_tokens: 10,
      cached_tokens: 4,
      output_tokens: 5,
      reasoning_tokens: 2,
      total_tokens: 15,
      images: 1,
    });
  });

  test("tells today, from midnight UTC, from before", async () => {
    usage.push(row({ atMs: MIDNIGHT_MS - 1 }));
    usage.push(row({ atMs: MIDNIGHT_MS }));
    usage.push(row());
    const { today, total } = (await report()).usage;
    expect(today.requests).toBe(2);
    expect(total.requests).toBe(3);
  });

  test("tells failed and refused requests", async () => {
    usage.push(row({ outcome: "failed" }));
    usage.push(row({ outcome: "refused" }));
    usage.push(row());
    expect((await report()).usage.total).toMatchObject({ failed_requests: 1, refused_requests: 1 });
  });

  test("is not what other keys have used", async () => {
    usage.push(row({ keyId: "k2" }));
    expect((await report()).usage.total).toEqual(NOTHING);
  });
});
