import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { makeBilling } from "../../billing/engine/direct-billing.test-support.ts";
import { changeWindows, lockSubscriptionBalances } from "../../billing/engine/subscription-balances.ts";
import { foldDays } from "../../billing/maintenance/fold-days.ts";
import { openLimiter } from "../../limits/limiter.ts";
import { compileSnapshot } from "../../policy/snapshot.ts";
import { type GroupBilling, NO_BILLING } from "../../records/group.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { groupRecord, userRecord } from "../../records/records.test-support.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { writeWallets } from "../../store/money/wallets.ts";
import { settlePending, type UsageRow } from "../../store/usage/usage.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import type { Caller } from "../admission/authenticate.ts";
import { callerSubjects } from "../admission/caller-limits.ts";
import { reportUsage } from "./usage-report.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MIDNIGHT_MS = Date.parse("2026-09-01T00:00:00Z");
const NOW_MS = MIDNIGHT_MS + 5 * HOUR_MS;
const NOW_S = NOW_MS / 1000;

interface Changes {
  expiresAtMs?: number;
  userId?: string;
  billing?: Partial<GroupBilling>;
  keyLimits?: Partial<CallerLimits>;
  perKeyLimits?: Partial<CallerLimits>;
}

function caller({ expiresAtMs, userId, billing, keyLimits, perKeyLimits }: Changes = {}): Caller {
  const record = groupRecord("g1", {
    name: "team",
    interfaces: ["chat", "images"],
    billing: { ...NO_BILLING, ...billing },
    limits: { ...NO_LIMITS, ...perKeyLimits },
    groupLimits: { ...NO_LIMITS, concurrency: 9 },
  });
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
    userId: userId ?? null,
    groupId: "g1",
    expiresAtMs: expiresAtMs ?? null,
    limits: { ...NO_LIMITS, ...keyLimits },
    userLimits: { ...NO_LIMITS, rpm: 100 },
    requestPolicy: null,
    fallback: null,
    capture: null,
    isTool: false,
    createdAtMs: 1_790_000_000_999,
  };
  return { key, group };
}

const row = (change: Partial<UsageRow> = {}) =>
  usageRow({ atMs: NOW_MS, costNano: 1_500_000_000n, chargedNano: 2_000n, ...change });

function openReport(db: Db) {
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => 0 };
  const billingEngine = makeBilling(db, { clock });
  const limiter = openLimiter(clock);
  const report = (who = caller(), query = "") =>
    reportUsage({ clock, db, billingEngine, limiter, limitBorrower: null }, who, new URLSearchParams(query));
  return { billing: billingEngine, limiter, report };
}

const NOTHING = {
  requests: 0,
  failed_requests: 0,
  refused_requests: 0,
  input_tokens: 0,
  cached_tokens: 0,
  cache_hit_rate: null,
  cache_write_tokens: 0,
  output_tokens: 0,
  reasoning_tokens: 0,
  total_tokens: 0,
  images: 0,
  cost: "0.00",
  charged: "0.00",
};

const ONE = {
  ...NOTHING,
  requests: 1,
  input_tokens: 10,
  cached_tokens: 4,
  cache_hit_rate: 0.4,
  cache_write_tokens: 1,
  output_tokens: 5,
  reasoning_tokens: 2,
  total_tokens: 15,
  cost: "1.50",
  charged: "0.000002",
};

eachEngine(({ open }) => {
  test("an empty usage report names the key and states that nothing is charged", async () => {
    const { report } = openReport(await open());
    expect(await report()).toEqual({
      object: "gateway.usage",
      version: 1,
      key: { id: "AbCd1234", name: "laptop", created_at: 1_790_000_000, expires_at: null },
      group: { name: "team", interfaces: ["chat", "images"] },
      billing: { mode: "none", currency: "USD" },
      limits: {
        key: NO_LIMITS,
        user: null,
        group: { ...NO_LIMITS, concurrency: { limit: 9, used: 0, remaining: 9 } },
      },
      usage: {
        today: { since: MIDNIGHT_MS / 1000, ...NOTHING },
        range: {
          from: (MIDNIGHT_MS - 29 * DAY_MS) / 1000,
          to: (MIDNIGHT_MS + DAY_MS) / 1000,
          granularity: "day",
          ...NOTHING,
          by_model: [],
          points: [],
        },
        total: NOTHING,
      },
      isValid: true,
      planName: "team",
      remaining: null,
      unit: "USD",
    });
    expect((await report(caller({ expiresAtMs: 1_800_000_000_500 }))).key.expires_at).toBe(1_800_000_000);
  });

  test("a usage report includes rows that are recorded but not yet written to the database", async () => {
    const { billing: billingEngine, report } = openReport(await open());
    billingEngine.push(row());
    expect((await report()).usage.total).toEqual(ONE);
  });

  test("a usage report separates today (since midnight UTC) from earlier usage", async () => {
    const { billing: billingEngine, report } = openReport(await open());
    billingEngine.push(row({ atMs: MIDNIGHT_MS - 1 }));
    billingEngine.push(row({ atMs: MIDNIGHT_MS }));
    billingEngine.push(row());
    const { today, total } = (await report()).usage;
    expect(today.requests).toBe(2);
    expect(total.requests).toBe(3);
  });

  test("a usage report includes failed and rejected requests, and excludes other keys", async () => {
    const { billing: billingEngine, report } = openReport(await open());
    billingEngine.push(row({ outcome: "failed" }));
    billingEngine.push(row({ outcome: "refused" }));
    billingEngine.push(row());
    billingEngine.push(row({ keyId: "k2" }));
    expect((await report()).usage.total).toMatchObject({
      requests: 2,
      failed_requests: 1,
      refused_requests: 1,
    });
  });

  test("a usage report lists the requested range by model, and by day or hour", async () => {
    const { billing: billingEngine, report } = openReport(await open());
    billingEngine.push(row({ atMs: MIDNIGHT_MS - 2 * DAY_MS }));
    billingEngine.push(row({ atMs: MIDNIGHT_MS - DAY_MS, publicModel: "slow", costNano: 9_000_000_000n }));
    billingEngine.push(row({ atMs: MIDNIGHT_MS - DAY_MS + HOUR_MS }));
    billingEngine.push(row());
    const days = (await report(caller(), "from=2026-08-31&to=2026-09-01")).usage.range;
    expect(days).toMatchObject({ granularity: "day", requests: 3, cost: "12.00" });
    expect(days.points.map(({ start, requests }) => [start, requests])).toEqual([
      [(MIDNIGHT_MS - DAY_MS) / 1000, 2],
      [MIDNIGHT_MS / 1000, 1],
    ]);
    expect(days.by_model.map(({ model, cost }) => [model, cost])).toEqual([
      ["slow", "9.00"],
      ["fast", "3.00"],
    ]);
    const hours = (await report(caller(), "from=2026-08-31&to=2026-08-31&granularity=hour")).usage.range;
    expect(hours.points).toEqual([
      { start: (MIDNIGHT_MS - DAY_MS) / 1000, ...ONE, cost: "9.00" },
      { start: (MIDNIGHT_MS - DAY_MS + HOUR_MS) / 1000, ...ONE },
    ]);
  });

  test("a usage report is the same before and after the fold, and after a late settlement", async () => {
    const db = await open();
    const { billing: billingEngine, report } = openReport(db);
    const pending = row({ atMs: MIDNIGHT_MS - 9 * DAY_MS, outcome: "pending" });
    billingEngine.push(pending);
    for (let days = 0; days < 20; days++)
      billingEngine.push(row({ atMs: NOW_MS - days * DAY_MS - days * HOUR_MS }));
    const before = (await report()).usage;
    expect(before.range.points.length).toBeGreaterThan(15);
    await foldDays(db, NOW_MS, true);
    expect((await report()).usage).toEqual(before);
    const tokens = { ...pending, outputTokens: 105 };
    await settlePending(db, pending.requestId, { tokens, costNano: 7n, listNano: 5n }, "completed");
    const settled = (await report()).usage;
    expect(settled.total.output_tokens).toBe(before.total.output_tokens + 100);
    await foldDays(db, NOW_MS, false);
    expect((await report()).usage).toEqual(settled);
  });

  test("a usage report reads totals, models and points from one consistent snapshot", async () => {
    const db = await open();
    const { report } = openReport(db);
    let isOver = false;
    const others = async () => {
      while (!isOver) {
        await insertUsage(db, [row()]);
        // Otherwise the event loop never receives what the thread has read.
        await nextTurn();
      }
    };
    const writing = Promise.all([others(), others(), others()]);
    const counts: number[][] = [];
    for (let times = 0; times < 30; times++) {
      const { today, range, total } = (await report()).usage;
      const parts = [range, today, total, ...range.by_model, ...range.points];
      counts.push(parts.map(({ requests }) => requests));
    }
    isOver = true;
    await writing;
    expect(counts.filter(([first, ...others]) => others.some((count) => count !== first))).toEqual([]);
  });

  test("a usage report contains the balance and the sum of its holds", async () => {
    const db = await open();
    await putUser(db, userRecord("u1"));
    await writeWallets(db, [["u1", { balanceNano: 12_500_000_001n, heldNano: 500_000_000n, debtNano: 0n }]]);
    const { report } = openReport(db);
    const paid = { billing: { charge: "balance" as const } };
    const mine = await report(caller({ ...paid, userId: "u1" }));
    expect(mine.billing).toEqual({
      mode: "balance",
      currency: "USD",
      balance: "12.500000001",
      held: "0.50",
      available: "12.000000001",
      debt: "0.00",
    });
    expect([mine.remaining, mine.unit, mine.planName]).toEqual([12.000000001, "USD", "team"]);
    expect((await report(caller({ ...paid, userId: "nobody" }))).remaining).toBe(0);
    expect((await report(caller(paid))).remaining).toBe(0);
  });

  test("a usage report contains the subscriptions that the group accepts, window by window", async () => {
    const db = await open();
    await putUser(db, userRecord("u1"));
    for (const [id, name] of [
      ["p1", "pro"],
      ["p2", "other"],
    ] as const) {
      await putPlan(db, {
        id,
        name,
        timeZone: "UTC",
        windows: [
          { per: "day", usd: "2.00", counted: "calendar" },
          { per: "month", usd: "20.00", counted: "calendar" },
        ],
        createdAtMs: 1,
      });
      await putSubscription(db, {
        id: `s-${id}`,
        userId: "u1",
        planId: id,
        startsAtMs: MIDNIGHT_MS - 40 * DAY_MS,
        endsAtMs: null,
        renews: "none",
        priority: 1,
        status: "active",
        createdAtMs: 1,
      });
    }
    await transaction(db, async (tx) => {
      await lockSubscriptionBalances(tx, ["u1"], NOW_MS);
      await changeWindows(tx, [
        { subscriptionId: "s-p1", atMs: NOW_MS, heldNano: 250_000_000n, usedNano: 0n },
      ]);
    });
    const { report } = openReport(db);
    const billing = { charge: "subscription" as const, plans: ["pro"] };
    const mine = await report(caller({ userId: "u1", billing }));
    const window = { used: "0.00", held: "0.25" };
    expect(mine.billing).toEqual({
      mode: "subscription",
      currency: "USD",
      subscriptions: [
        {
          plan: "pro",
          ends_at: null,
          windows: [
            {
              per: "day",
              limit: "2.00",
              ...window,
              remaining: "1.75",
              resets_at: (MIDNIGHT_MS + DAY_MS) / 1000,
            },
            {
              per: "month",
              limit: "20.00",
              ...window,
              remaining: "19.75",
              resets_at: Date.parse("2026-10-01T00:00:00Z") / 1000,
            },
          ],
        },
      ],
    });
    expect([mine.remaining, mine.planName]).toEqual([1.75, "pro"]);
    expect((await report(caller({ userId: "u1", billing: { ...billing, plans: null } }))).remaining).toBe(
      3.75,
    );
    const none = await report(caller({ billing }));
    expect([none.remaining, none.planName, none.billing]).toEqual([
      0,
      "team",
      { mode: "subscription", currency: "USD", subscriptions: [] },
    ]);
  });

  test("a usage report contains the remaining limits, the tighter of the key's and the group's", async () => {
    const { limiter, report } = openReport(await open());
    const who = caller({
      userId: "u1",
      keyLimits: { rpm: 10, windows: [{ perMs: DAY_MS, requests: 5, tokens: null, nano: 3_000_000_000 }] },
      perKeyLimits: { rpm: 4, tpm: 1_000, concurrency: 2 },
    });
    limiter.admit(callerSubjects(who), { tokens: 100, nano: 1_000_000_000 });
    const { key, user, group } = (await report(who)).limits;
    expect(key.rpm).toEqual({ limit: 4, used: 1, remaining: 3, resets_at: NOW_S + 60 });
    expect(key.tpm).toMatchObject({ limit: 1_000, used: 100, remaining: 900 });
    expect(key.concurrency).toEqual({ limit: 2, used: 1, remaining: 1 });
    expect(key.windows).toMatchObject([
      {
        per_seconds: 86_400,
        requests: { limit: 5, used: 1, remaining: 4 },
        tokens: null,
        usd: { limit: "3.00", used: "1.00", remaining: "2.00" },
      },
    ]);
    expect(user?.rpm).toMatchObject({ limit: 100, remaining: 99 });
    expect(group.concurrency).toEqual({ limit: 9, used: 1, remaining: 8 });
  });
});
