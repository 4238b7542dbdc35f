import { afterEach, beforeEach, expect, test } from "bun:test";
import { openLimiter } from "../../limits/limiter.ts";
import { KeyIndex } from "../../policy/key-index.ts";
import type { LivePolicy } from "../../policy/live-policy.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { groupRecord, keyRecord } from "../../records/records.test-support.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { putUser } from "../../store/identity/users.ts";
import { putGroup } from "../../store/policy/groups.ts";
import { insertKey } from "../../store/policy/keys.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import { callerSubjects } from "./caller-limits.ts";
import { WindowSeeds } from "./seed-windows.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = Date.parse("2026-09-30T12:30:00Z");

let db: Db;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
});

afterEach(() => db.close());

function row(agoMs: number, change: Partial<UsageRow> = {}): UsageRow {
  return usageRow({ atMs: NOW_MS - agoMs, inputTokens: 30, outputTokens: 70, ...change });
}

type Window = [perMs: number, requests: number | null, tokens: number | null, nano?: number];

const windows = (...list: Window[]): CallerLimits => ({
  ...NO_LIMITS,
  windows: list.map(([perMs, requests, tokens, nano = null]) => ({ perMs, requests, tokens, nano })),
});

interface Who {
  keys: Record<
    string,
    { limits?: CallerLimits; user?: string; userLimits?: CallerLimits; revoked?: boolean }
  >;
  eachKey?: CallerLimits;
  allKeys?: CallerLimits;
}

/** Starts a process now: its limiter is seeded from the database. */
async function started({ keys, eachKey = NO_LIMITS, allKeys = NO_LIMITS }: Who) {
  const group = groupRecord("g1", { limits: eachKey, groupLimits: allKeys });
  const snapshot = compileSnapshot(
    { models: [], accounts: [], groups: [group] },
    { simulatorUrl: null, unseal: () => null },
  );
  await putGroup(db, group);
  for (const [id, { user = null, userLimits = NO_LIMITS, revoked = false }] of Object.entries(keys)) {
    if (user !== null) {
      await putUser(db, {
        id: user,
        email: `${user}@x.y`,
        role: "user",
        status: "active",
        passwordHash: null,
        groups: [],
        limits: userLimits,
        createdAtMs: 1,
      });
    }
    await insertKey(db, keyRecord(id, { userId: user, status: revoked ? "revoked" : "active" }));
  }
  const index = new KeyIndex();
  index.patch(
    Object.entries(keys)
      .filter(([, { revoked }]) => !revoked)
      .map(([id, { limits = NO_LIMITS, user = null, userLimits = NO_LIMITS }]) => ({
        id,
        name: id,
        userId: user,
        groupId: "g1",
        digest: `digest of ${id}`,
        publicId: id,
        last4: "last",
        status: "active" as const,
        expiresAtMs: null,
        limits,
        userLimits,
        requestPolicy: null,
        fallback: null,
        capture: null,
        formerSecrets: [],
        createdAtMs: 1,
        revokedAtMs: null,
      })),
  );
  const policy: LivePolicy = {
    snapshot: () => snapshot,
    keys: index,
    refresh: async () => {},
    ageMs: () => 0,
    revision: () => 1,
    close: () => {},
  };
  const limiter = openLimiter({ monotonicMs: () => 5_000 });
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => 5_000 };
  const seeds = new WindowSeeds({ db, policy, limiter, clock });
  await seeds.seed();
  const admit = (keyId: string) => {
    const key = index.get(keyId);
    const inGroup = snapshot.groups.get("g1");
    if (!key || !inGroup) throw new Error("the key is not in the index");
    const subjects = callerSubjects({ key, group: inGroup });
    return limiter.admit(subjects, { tokens: 1, nano: 1 });
  };
  return Object.assign(admit, { seeds });
}

test("usage before the start of the process counts in a window", async () => {
  await insertUsage(db, [row(10_000), row(3 * HOUR_MS)]);
  const admit = await started({ keys: { k1: { limits: windows([5 * HOUR_MS, 3, null]) } } });
  expect(admit("k1").ok).toBe(true);
  expect(admit("k1")).toMatchObject({ ok: false, shortage: { kind: "window", used: 3, max: 3 } });
});

test("usage outside the window does not count", async () => {
  await insertUsage(db, [row(7 * HOUR_MS), row(25 * HOUR_MS)]);
  const admit = await started({
    keys: { k1: { limits: windows([5 * HOUR_MS, 1, null], [DAY_MS, 2, null]) } },
  });
  expect(admit("k1").ok).toBe(true);
});

test("input and output tokens count", async () => {
  await insertUsage(db, [row(HOUR_MS), row(2 * HOUR_MS)]);
  const admit = await started({ keys: { k1: { limits: windows([DAY_MS, null, 200]) } } });
  expect(admit("k1")).toMatchObject({ ok: false, shortage: { unit: "tokens", used: 200 } });
});

test("the cost of requests counts, even if it was not charged", async () => {
  const cost = { costNano: 2_500_000_000n, chargedNano: 0n };
  await insertUsage(db, [row(HOUR_MS, cost), row(2 * HOUR_MS, cost), row(8 * HOUR_MS, cost)]);
  const admit = await started({
    keys: { k1: { limits: windows([5 * HOUR_MS, null, null, 5_000_000_000]) } },
  });
  expect(admit("k1")).toMatchObject({ ok: false, shortage: { unit: "nano", used: 5_000_000_000 } });
});

test("rejected requests do not count", async () => {
  const refused = { outcome: "refused" as const, status: 429, inputTokens: 0, outputTokens: 0 };
  await insertUsage(db, [row(1_000, refused), row(2_000, refused)]);
  const admit = await started({ keys: { k1: { limits: windows([DAY_MS, 1, null]) } } });
  expect(admit("k1").ok).toBe(true);
});

test("a key, all keys of a user and all keys of a group are counted separately", async () => {
  await insertUsage(db, [row(1_000), row(2_000, { keyId: "k2" }), row(3_000, { keyId: "k3" })]);
  const own = windows([DAY_MS, 2, null]);
  const userLimits = windows([DAY_MS, 3, null]);
  const admit = await started({
    keys: { k1: { limits: own, user: "u1", userLimits }, k2: { user: "u1", userLimits }, k3: {} },
    allKeys: windows([DAY_MS, 5, null]),
  });
  expect(admit("k1").ok).toBe(true);
  expect(admit("k1")).toMatchObject({ ok: false });
  expect(admit("k2")).toMatchObject({ ok: false, shortage: { scope: "user", used: 3 } });
  expect(admit("k3").ok).toBe(true);
  expect(admit("k3")).toMatchObject({ ok: false, shortage: { scope: "group", used: 5 } });
});

test("usage of a revoked key still counts for its user", async () => {
  await insertUsage(db, [row(1_000), row(2_000)]);
  const userLimits = windows([DAY_MS, 2, null]);
  const revoked = { k1: { user: "u1", userLimits, revoked: true } };
  const ofUser = await started({ keys: { ...revoked, k2: { user: "u1", userLimits } } });
  expect(ofUser("k2")).toMatchObject({ ok: false, shortage: { scope: "user", used: 2 } });
});

test("usage of a revoked key still counts for its group", async () => {
  await insertUsage(db, [row(1_000), row(2_000)]);
  const admit = await started({
    keys: { k1: { revoked: true }, k2: {} },
    allKeys: windows([DAY_MS, 2, null]),
  });
  expect(admit("k2")).toMatchObject({ ok: false, shortage: { scope: "group", used: 2 } });
});

test("a per-key limit of a group counts each key separately", async () => {
  await insertUsage(db, [row(1_000), row(2_000)]);
  const admit = await started({ keys: { k1: {}, k2: {} }, eachKey: windows([DAY_MS, 2, null]) });
  expect(admit("k1").ok).toBe(false);
  expect(admit("k2").ok).toBe(true);
});

test("usage of deleted keys and groups is ignored", async () => {
  await insertUsage(db, [row(1_000, { keyId: "gone" }), row(1_000, { groupId: "gone" })]);
  const admit = await started({ keys: { k1: { limits: windows([DAY_MS, 1, null]) } } });
  expect(admit("k1").ok).toBe(true);
});
