/** How long a hold waits for PostgreSQL: longer for a slow database than for one that is unavailable. */

import { beforeAll, expect, test } from "bun:test";
import { usePostgres } from "../../../test/support/postgres.ts";
import { type Db, openDb, transaction } from "../../store/engine/db.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { addFunds, buildHoldRequest, LIMITS, makeBilling } from "./direct-billing.test-support.ts";
import { BillingUnavailable } from "./direct-billing.ts";
import { isHoldExpired } from "./store-timeouts.ts";

let db: Db;
let url: string;

usePostgres((opened) => {
  ({ db, url } = opened);
});
beforeAll(() => addFunds(db, "u1", 1_000n));

test("a silent database counts as unavailable long before the timeout for a slow one", async () => {
  const billingEngine = makeBilling(db, {
    limits: { ...LIMITS, holdTimeoutMs: 600_000, storeSilenceMaxMs: 60 },
  });
  await transaction(db, async (tx) => {
    await tx.sql`SELECT user_id FROM wallet WHERE user_id = 'u1' FOR UPDATE`;
    await expect(billingEngine.hold(buildHoldRequest("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
  });
  await billingEngine.flush();
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
  await billingEngine.stop();
});

test("users whose wallet another node has locked do not delay the others", async () => {
  const billingDb = await openDb(url, { workload: "billing" });
  await addFunds(db, "u2", 1_000n);
  const billingEngine = makeBilling(billingDb, { limits: { ...LIMITS, holdTimeoutMs: 1_500 } });
  await transaction(db, async (tx) => {
    await tx.sql`SELECT user_id FROM wallet WHERE user_id = 'u1' FOR UPDATE`;
    const locked = Promise.resolve(billingEngine.hold(buildHoldRequest("locked")));
    locked.catch(() => {});
    const startMs = performance.now();
    for (let i = 0; i < 5; i++) {
      const request = buildHoldRequest(`free${i}`, { userId: "u2" });
      expect(await billingEngine.hold(request)).toMatchObject({ kind: "held" });
    }
    // The first of them waits until the lock is known.
    expect(performance.now() - startMs).toBeLessThan(1_000);
    await expect(locked).rejects.toBeInstanceOf(BillingUnavailable);
  });
  await billingEngine.flush();
  expect((await readWallet(db, "u1")).heldNano).toBe(0n);
  expect((await readWallet(db, "u2")).heldNano).toBe(500n);
  await billingEngine.stop();
  await billingDb.close();
});

test("a database that accepts no transaction makes the node unready, until it accepts one again", async () => {
  const billingEngine = makeBilling(db, { limits: { ...LIMITS, stalledAfterMs: 50, storeSilenceMaxMs: 60 } });
  expect(billingEngine.isStoreResponding()).toBe(true);
  await transaction(db, async (tx) => {
    await tx.sql`SELECT user_id FROM wallet WHERE user_id = 'u1' FOR UPDATE`;
    await expect(billingEngine.hold(buildHoldRequest("stalled"))).rejects.toBeInstanceOf(BillingUnavailable);
    expect(billingEngine.isStoreResponding()).toBe(false);
  });
  await billingEngine.flush();
  expect(billingEngine.isStoreResponding()).toBe(true);
  await billingEngine.stop();
});

test("with commits of 200 ms, every hold succeeds", async () => {
  const slow: Db = {
    ...db,
    begin: (mode, work) =>
      db.begin(mode, async (tx) => {
        const result = await work(tx);
        await tx.sql`SELECT pg_sleep(0.2)`;
        return result;
      }),
  };
  const billingEngine = makeBilling(slow);
  // Each batch is submitted while the previous one is in flight.
  const asked: Promise<unknown>[] = [];
  for (let i = 0; i < 3; i++) {
    asked.push(Promise.resolve(billingEngine.hold(buildHoldRequest(`slow${i}`, { wantedNano: 10n }))));
    await Bun.sleep(20);
  }
  for (const result of await Promise.all(asked)) expect(result).toMatchObject({ kind: "held" });
  await billingEngine.stop();
});

test.each([
  [
    "transactions keep ending",
    { sinceMs: 0, nowMs: 1_900, lastCommitMs: 1_500, isAvailable: false, isFailing: false },
    false,
  ],
  [
    "no transaction has ended since it was submitted",
    { sinceMs: 0, nowMs: 500, lastCommitMs: -9_000, isAvailable: false, isFailing: false },
    true,
  ],
  [
    "it is newer than the silence limit",
    { sinceMs: 100, nowMs: 500, lastCommitMs: -9_000, isAvailable: false, isFailing: false },
    false,
  ],
  [
    "transactions fail",
    { sinceMs: 300, nowMs: 500, lastCommitMs: -9_000, isAvailable: false, isFailing: true },
    true,
  ],
  [
    "another process holds the database lock",
    { sinceMs: 0, nowMs: 1_900, lastCommitMs: 0, isAvailable: true, isFailing: false },
    false,
  ],
  [
    "it has reached the maximum wait",
    { sinceMs: 0, nowMs: 2_000, lastCommitMs: 1_999, isAvailable: true, isFailing: false },
    true,
  ],
])("whether a hold times out when %s", (_when, { sinceMs, ...signs }, isOver) => {
  const limits = { holdTimeoutMs: 2_000, storeSilenceMaxMs: 500, storeFailureMaxMs: 200 };
  expect(isHoldExpired(limits, sinceMs, signs)).toBe(isOver);
});
