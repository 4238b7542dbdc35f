import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { TokenCounts } from "../../money/token-counts.ts";
import { groupRecord, keyRecord, userRecord } from "../../records/records.test-support.ts";
import { type Db, isUniqueViolation, openDb } from "../engine/db.ts";
import { migrate } from "../engine/migrate.ts";
import { putUser } from "../identity/users.ts";
import { putGroup } from "../policy/groups.ts";
import { insertKey } from "../policy/keys.ts";
import {
  findRoute,
  findUsage,
  keyTotals,
  NO_FALLBACK,
  NO_MONEY,
  type PendingUse,
  settlePending,
  type UsageRow,
  useByHour,
} from "./usage.ts";
import { insertUsage } from "./usage-row.test-support.ts";

const HOUR_MS = 3_600_000;
const NOON_MS = 498_520 * HOUR_MS;

const summed = (scale: number) => ({
  inputTokens: 100 * scale,
  cachedTokens: 10 * scale,
  cacheWriteTokens: 5 * scale,
  outputTokens: 50 * scale,
  reasoningTokens: 20 * scale,
  images: scale,
});

const tokens = (scale: number): TokenCounts => ({
  ...summed(scale),
  cacheWrite1hTokens: 4 * scale,
  webSearches: scale,
  imageInputTokens: 3 * scale,
  audioInputTokens: 2 * scale,
  audioOutputTokens: scale,
});

const late = (scale: number): PendingUse => ({ tokens: tokens(scale), costNano: 70n, listNano: 50n });

/** More than a number can represent exactly. */
const MUCH_NANO = 9_007_199_254_740_993n;

const row = (requestId: string, change: Partial<UsageRow> = {}): UsageRow => ({
  requestId,
  requestCount: 1,
  atMs: NOON_MS,
  keyId: "k1",
  userId: null,
  groupId: "g1",
  accountId: "a1",
  interface: "chat",
  endpoint: "/v1/chat/completions",
  publicModel: "fast-chat",
  upstreamModel: "gpt",
  stream: true,
  status: 200,
  outcome: "completed",
  errorCode: null,
  ...tokens(1),
  ...NO_MONEY,
  ...NO_FALLBACK,
  usageSource: "upstream",
  attempts: 1,
  firstByteMs: 12,
  durationMs: 34,
  waitMs: 0,
  responseId: null,
  upstreamRequestId: null,
  trace: null,
  ...change,
});

const counted = (requests: number, refused: number, failed: number, scale: number) => ({
  requests,
  refused,
  failed,
  ...summed(scale),
});

/** A user with two keys, and a key without a user. */
async function seedKeys(db: Db): Promise<void> {
  await putGroup(db, groupRecord("g1"));
  await putUser(db, userRecord("u1"));
  for (const [id, userId] of [
    ["k1", "u1"],
    ["k2", "u1"],
    ["k3", null],
  ] as const) {
    await insertKey(db, keyRecord(id, { userId }));
  }
}

/** The expected roll-up, computed by the engine from the rows. */
async function rollUps(db: Db): Promise<{ written: unknown[]; expected: unknown[] }> {
  const written = await db.sql`
    SELECT key_id, hour_ms, group_id, public_model, interface, requests, refused, failed, input_tokens, cached_tokens,
      cache_write_tokens, output_tokens, reasoning_tokens, images
    FROM usage_hour ORDER BY key_id, hour_ms, group_id, public_model, interface`;
  const expected = await db.sql`
    SELECT key_id, at_ms - at_ms % ${HOUR_MS} AS hour_ms, group_id, public_model, interface,
      COUNT(CASE WHEN outcome <> 'refused' THEN 1 END) AS requests,
      COUNT(CASE WHEN outcome = 'refused' THEN 1 END) AS refused,
      COUNT(CASE WHEN outcome IN ('failed', 'upstream_cut') THEN 1 END) AS failed,
      CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, CAST(SUM(cached_tokens) AS BIGINT) AS cached_tokens,
      CAST(SUM(cache_write_tokens) AS BIGINT) AS cache_write_tokens,
      CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
      CAST(SUM(reasoning_tokens) AS BIGINT) AS reasoning_tokens, CAST(SUM(images) AS BIGINT) AS images
    FROM usage GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`;
  return { written: [...written], expected: [...expected] };
}

const rowArbitrary: fc.Arbitrary<UsageRow> = fc
  .record({
    id: fc.integer({ min: 0, max: 40 }),
    minutes: fc.integer({ min: 0, max: 180 }),
    key: fc.constantFrom("k1", "k2"),
    model: fc.constantFrom("fast-chat", "painter"),
    family: fc.constantFrom("chat" as const, "images" as const),
    outcome: fc.constantFrom<UsageRow["outcome"][]>(
      "completed",
      "failed",
      "refused",
      "pending",
      "upstream_cut",
    ),
    scale: fc.integer({ min: 0, max: 1000 }),
  })
  .map(({ id, minutes, key, model, family, outcome, scale }) =>
    row(`r${id}`, {
      atMs: NOON_MS + minutes * 60_000,
      keyId: key,
      publicModel: model,
      interface: family,
      outcome,
      ...tokens(scale),
    }),
  );

eachEngine(({ open, emptyUrl }) => {
  test("a row is written with all its columns", async () => {
    const db = await open();
    const full = row("r1", {
      userId: "u1",
      responseId: "resp_1",
      upstreamRequestId: "up_1",
      errorCode: "x",
      waitMs: 7,
      trace: "{}",
      costNano: 12n,
      chargedNano: 11n,
      upstreamNano: 10n,
      payer: "balance",
      tariffId: "t1",
      flags: ["capped", "overrun"],
      requestedGroup: "g0",
      requestedModel: "slow-chat",
      fallbackStep: 2,
      fallbackReason: "busy",
    });
    await insertUsage(db, [full]);
    const { key_no, user_no, group_no, account_no, kind_no, ...stored } =
      (await db.sql`SELECT * FROM usage`)[0] ?? {};
    expect(new Set([key_no, user_no, group_no, account_no, kind_no]).size).toBe(5);
    expect(stored).toEqual({
      cost_nano: 12,
      charged_nano: 11,
      upstream_nano: 10,
      requested_group: "g0",
      requested_model: "slow-chat",
      fallback_step: 2,
      fallback_reason: "busy",
      payer: "balance",
      tariff_id: "t1",
      flags: "capped,overrun",
      charged_with: null,
      image_input_tokens: 3,
      audio_input_tokens: 2,
      audio_output_tokens: 1,
      request_id: "r1",
      request_count: 1,
      at_ms: NOON_MS,
      key_id: "k1",
      user_id: "u1",
      group_id: "g1",
      account_id: "a1",
      interface: "chat",
      endpoint: "/v1/chat/completions",
      public_model: "fast-chat",
      upstream_model: "gpt",
      stream: 1,
      status: 200,
      outcome: "completed",
      error_code: "x",
      input_tokens: 100,
      cached_tokens: 10,
      cache_write_tokens: 5,
      cache_write_1h_tokens: 4,
      web_searches: 1,
      output_tokens: 50,
      reasoning_tokens: 20,
      images: 1,
      usage_source: "upstream",
      attempts: 1,
      first_byte_ms: 12,
      duration_ms: 34,
      wait_ms: 7,
      response_id: "resp_1",
      upstream_request_id: "up_1",
      trace: "{}",
    });
  });

  test("for any batches, the roll-up is the sum of the rows", async () => {
    const db = await open();
    const rowsArbitrary = fc.uniqueArray(rowArbitrary, { selector: ({ requestId }) => requestId });
    await fc.assert(
      fc.asyncProperty(rowsArbitrary, fc.integer({ min: 1, max: 10 }), async (rows, batchLength) => {
        await db.sql.script("DELETE FROM usage_row; DELETE FROM usage_hour;");
        for (let at = 0; at < rows.length; at += batchLength) {
          await insertUsage(db, rows.slice(at, at + batchLength));
        }
        const { written, expected } = await rollUps(db);
        expect(written).toEqual(expected);
        expect(await db.sql`SELECT COUNT(*) AS many FROM usage`).toEqual([{ many: rows.length }]);
      }),
      { numRuns: 30 },
    );
  });

  test("a batch with a duplicate row is rejected as a whole", async () => {
    const db = await open();
    await insertUsage(db, [row("r1")]);
    // Takes several statements of several rows each; the conflict is in the last one.
    const batch = Array.from({ length: 19 }, (_, index) => row(`r0${index}`));
    expect(await insertUsage(db, [...batch, row("r1", tokens(7))]).catch(isUniqueViolation)).toBe(true);
    expect(await keyTotals(db, "k1", null)).toMatchObject(counted(1, 0, 0, 1));
    expect(await db.sql`SELECT request_id FROM usage`).toEqual([{ request_id: "r1" }]);
  });

  test("concurrent batches of two connections in the same hours are all counted", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    const batch = Array.from({ length: 250 }, (_, index) => row(`r${index}`, { keyId: `k${index % 7}` }));
    await Promise.all([
      insertUsage(one, batch.slice(0, 60)),
      insertUsage(two, batch.slice(60, 120).toReversed()),
      insertUsage(one, batch.slice(120, 180)),
      insertUsage(two, batch.slice(180)),
    ]);
    const { written, expected } = await rollUps(one);
    expect(written).toEqual(expected);
    expect(await one.sql`SELECT COUNT(*) AS many FROM usage`).toEqual([{ many: 250 }]);
    await one.close();
    await two.close();
  });

  test("totals cover one key from an hour on, with rejected requests separate", async () => {
    const db = await open();
    await insertUsage(db, [
      row("r1", { atMs: NOON_MS - 1 }),
      row("r2", { atMs: NOON_MS + 5 }),
      row("r3", { atMs: NOON_MS + HOUR_MS, outcome: "failed" }),
      row("r4", { atMs: NOON_MS + HOUR_MS, outcome: "refused", ...tokens(0) }),
      row("r5", { keyId: "k2" }),
    ]);
    expect(await keyTotals(db, "k1", null)).toMatchObject(counted(3, 1, 1, 3));
    expect(await keyTotals(db, "k1", NOON_MS)).toMatchObject(counted(2, 1, 1, 2));
    expect(await keyTotals(db, "k1", NOON_MS + HOUR_MS)).toMatchObject(counted(1, 1, 1, 1));
    expect(await keyTotals(db, "nobody", null)).toMatchObject(counted(0, 0, 0, 0));
  });

  test("no value from a caller or an upstream makes a batch fail", async () => {
    const db = await open();
    const strange = [
      row("r1", { publicModel: "nul\0byte", responseId: "nul\0byte" }),
      row("r2", { publicModel: "half \ud83d" }),
      row("r3", { publicModel: "half \ud83e" }),
      row("r4", { publicModel: "🙂".repeat(5_000), upstreamModel: "x".repeat(9_000) }),
      row("r5", { responseId: "x".repeat(9_000) }),
      row("r6", { inputTokens: Number.NaN, outputTokens: -5, images: 1e300, cachedTokens: 0.5 }),
      row("r7", { firstByteMs: 12.7, durationMs: 34.2 }),
    ];
    await insertUsage(db, [...strange, row("r8")]);
    const { written, expected } = await rollUps(db);
    expect(written).toEqual(expected);
    expect((await keyTotals(db, "k1", null)).requests).toBe(8);
  });

  test("an excessive cost is clamped and flagged, and the charge is unchanged", async () => {
    const db = await open();
    const dear = 10n ** 30n;
    const rows = [
      row("r1", { costNano: dear, upstreamNano: dear, flags: ["estimated"] }),
      row("r2", { costNano: dear, chargedNano: 2n * 10n ** 14n }),
      row("r3", { costNano: 10n ** 14n }),
    ];
    await insertUsage(db, rows);
    expect(await findUsage(db, "r1")).toMatchObject({
      costNano: 10n ** 14n,
      upstreamNano: 10n ** 14n,
      flags: ["estimated", "clamped"],
    });
    expect(await findUsage(db, "r2")).toMatchObject({
      costNano: 2n * 10n ** 14n,
      chargedNano: 2n * 10n ** 14n,
      flags: ["clamped"],
    });
    expect(await findUsage(db, "r3")).toMatchObject({ costNano: 10n ** 14n, flags: [] });
    expect((await keyTotals(db, "k1", null)).costNano).toBe(4n * 10n ** 14n);
  });

  test("a response id leads to the request, key and account that created it", async () => {
    const db = await open();
    const made = { interface: "responses", responseId: "resp_1" } as const;
    await insertUsage(db, [
      row("r1", { ...made, outcome: "pending", accountId: "a7", upstreamModel: null }),
      row("r2", { ...made, keyId: "k2", atMs: NOON_MS + 1 }),
      row("r3"),
    ]);
    expect(await findRoute(db, "resp_1")).toEqual({
      requestId: "r1",
      keyId: "k1",
      accountId: "a7",
      publicModel: "fast-chat",
      upstreamModel: null,
      outcome: "pending",
      isHeld: false,
    });
    for (const unknown of ["resp_2", "", "nul\0byte", "x".repeat(9_000)])
      expect(await findRoute(db, unknown)).toBeNull();
  });

  test("a request is found by its id, with all columns", async () => {
    const db = await open();
    const trace = JSON.stringify({ attempts: [{ account: "a1", says: "\0 and 🙂" }] });
    const full = row("r1", {
      userId: "u1",
      responseId: "resp_1",
      upstreamRequestId: "up_1",
      errorCode: "x",
      waitMs: 1_234,
      trace,
    });
    const bare = row("r2", { accountId: null, upstreamModel: null, firstByteMs: null, stream: false });
    await insertUsage(db, [full, bare]);
    expect(await findUsage(db, "r1")).toEqual(full);
    expect(await findUsage(db, "r2")).toEqual(bare);
    for (const unknown of ["r3", "", "nul\0byte", "x".repeat(9_000)])
      expect(await findUsage(db, unknown)).toBeNull();
  });

  test("a too long or invalid trace is dropped, and its row is kept", async () => {
    const db = await open();
    const whole = JSON.stringify("x".repeat(16_384 - 2));
    await insertUsage(db, [
      row("r1", { trace: whole }),
      row("r2", { trace: JSON.stringify("x".repeat(16_384 - 1)) }),
      row("r3", { trace: JSON.stringify("é".repeat(8_192)) }),
      row("r4", { trace: "\0" }),
      row("r5", { trace: "\ud83d" }),
    ]);
    const traces = await Promise.all(["r1", "r2", "r3", "r4", "r5"].map((id) => findUsage(db, id)));
    expect(traces.map((found) => found?.trace)).toEqual([whole, null, null, null, null]);
  });

  test("use is returned by hour, key and group, without rejected requests", async () => {
    const db = await open();
    await seedKeys(db);
    await insertUsage(db, [
      row("r1", { atMs: NOON_MS - 1 }),
      row("r2", { atMs: NOON_MS + 5, costNano: MUCH_NANO, chargedNano: MUCH_NANO }),
      row("r3", { atMs: NOON_MS + 9, publicModel: "painter", outcome: "failed", costNano: 7n }),
      row("r4", { atMs: NOON_MS + HOUR_MS, keyId: "k2", ...tokens(2) }),
      row("r5", { atMs: NOON_MS + HOUR_MS, keyId: "k2", groupId: "g2" }),
      row("r6", { atMs: NOON_MS + 2 * HOUR_MS, outcome: "refused", ...tokens(0) }),
    ]);
    const use = (
      keyId: string,
      groupId: string,
      hours: number,
      requests: number,
      scale: number,
      costNano = 0n,
    ) => {
      return {
        keyId,
        userId: "u1",
        groupId,
        atMs: NOON_MS + hours * HOUR_MS - 1,
        requests,
        tokens: 150 * scale,
        costNano,
      };
    };
    const cost = MUCH_NANO + 7n;
    const later = [use("k1", "g1", 1, 2, 2, cost), use("k2", "g1", 2, 1, 2), use("k2", "g2", 2, 1, 1)];
    expect(await useByHour(db, 0)).toEqual([use("k1", "g1", 0, 1, 1), ...later]);
    // An hour that overlaps the range is returned as a whole.
    expect(await useByHour(db, NOON_MS + HOUR_MS - 1)).toEqual(later);
    expect(await useByHour(db, NOON_MS + 2 * HOUR_MS)).toEqual([]);
  });

  test("a pending row is settled once, in the row and in the roll-up", async () => {
    const db = await open();
    const wasted = { upstreamNano: 3n };
    const pending = row("r1", { outcome: "pending", usageSource: "none", ...tokens(0), ...wasted });
    await insertUsage(db, [pending, row("r2")]);
    expect(await keyTotals(db, "k1", null)).toMatchObject(counted(2, 0, 0, 1));
    const attempts = [4, 4, 4].map((scale) => settlePending(db, "r1", late(scale), "completed"));
    expect((await Promise.all(attempts)).sort()).toEqual([false, false, true]);
    const sums = { ...counted(2, 0, 0, 5), costNano: 70n, chargedNano: 0n, upstreamNano: 53n };
    expect(await keyTotals(db, "k1", null)).toMatchObject(sums);
    expect(await findUsage(db, "r1")).toMatchObject({ costNano: 70n, chargedNano: 0n, upstreamNano: 53n });
    const [settled] =
      await db.sql`SELECT outcome, usage_source, input_tokens FROM usage WHERE request_id = 'r1'`;
    expect(settled).toEqual({ outcome: "completed", usage_source: "upstream", input_tokens: 400 });
    const { written, expected } = await rollUps(db);
    expect(written).toEqual(expected);
  });

  test("a pending row that fails without usage counts as failed", async () => {
    const db = await open();
    await insertUsage(db, [row("r1", { outcome: "pending", usageSource: "none", ...tokens(0) })]);
    expect(await settlePending(db, "r1", null, "failed")).toBe(true);
    expect(await keyTotals(db, "k1", null)).toMatchObject(counted(1, 0, 1, 0));
    const [settled] = await db.sql`SELECT usage_source FROM usage`;
    expect(settled).toEqual({ usage_source: "none" });
  });

  test("a row that is missing or not pending is not settled", async () => {
    const db = await open();
    await insertUsage(db, [row("r1")]);
    expect(await settlePending(db, "r1", late(9), "completed")).toBe(false);
    expect(await settlePending(db, "nobody", late(9), "completed")).toBe(false);
    expect(await keyTotals(db, "k1", null)).toMatchObject(counted(1, 0, 0, 1));
  });
});
