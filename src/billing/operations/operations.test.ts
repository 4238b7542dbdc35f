import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { parseUsd } from "../../money/nano.ts";
import type { PlanWindow } from "../../records/plan.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import {
  postTransfer,
  REVENUE,
  subscriptionBook,
  type Transfer,
  userBook,
} from "../../store/money/ledger.ts";
import { putPlan } from "../../store/money/plans.ts";
import { findWrongWindows } from "../../store/money/subscription-windows.ts";
import { cancelSubscription, putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { changeWindows, lockSubscriptionBalances } from "../engine/subscription-balances.ts";
import { adjust, type MoneyContext, refund, topUp } from "./operations.ts";
import { MoneyOperationRejected } from "./rejection.ts";

const NOW_MS = Date.parse("2027-03-10T12:00:00Z");
const DAY_MS = 86_400_000;
const BY = { actor: "cli:ada", reason: "a reason" };
const usd = parseUsd;

async function deskOn(db: Db, atMs = NOW_MS): Promise<MoneyContext> {
  for (const id of ["u1", "u2"]) {
    await putUser(db, userRecord(id));
  }
  let ids = 0;
  return { db, clock: { nowMs: () => atMs }, newId: (prefix) => `${prefix}_${++ids}` };
}

const rejection = (call: Promise<unknown>) =>
  call.then(
    () => "done",
    (error: unknown) => (error instanceof MoneyOperationRejected ? error.code : error),
  );

async function charge(db: Db, requestId: string, amount: string, subscriptionId: string | null = null) {
  const transfer: Transfer = {
    id: `charge:${requestId}`,
    atMs: NOW_MS,
    kind: "charge",
    debit: subscriptionId === null ? userBook("u1") : subscriptionBook(subscriptionId),
    credit: REVENUE,
    amountNano: usd(amount),
    userId: "u1",
    subscriptionId,
    requestId,
    actor: "system",
    reason: null,
  };
  await transaction(db, (tx) => postTransfer(tx, transfer));
}

async function takeHold(db: Db, amount: string) {
  await db.sql`UPDATE wallet SET held_nano = CAST(${usd(amount).toString()} AS BIGINT) WHERE user_id = 'u1'`;
}

async function grantPlan(db: Db, windows: PlanWindow[]) {
  await putPlan(db, { id: "p", name: "p", timeZone: "UTC", windows, createdAtMs: 0 });
  await putSubscription(db, {
    id: "s",
    userId: "u1",
    planId: "p",
    startsAtMs: NOW_MS - DAY_MS,
    endsAtMs: null,
    renews: "none",
    priority: 1,
    status: "active",
    createdAtMs: 0,
  });
}

async function chargeSubscription(db: Db, requestId: string, amount: string) {
  await grantPlan(db, [
    { per: "day", usd: "5.00", counted: "calendar" },
    { per: "month", usd: "20.00", counted: "calendar" },
  ]);
  await readRemaining(db, NOW_MS);
  await charge(db, requestId, amount, "s");
  await transaction(db, (tx) =>
    changeWindows(tx, [{ subscriptionId: "s", atMs: NOW_MS, heldNano: 0n, usedNano: usd(amount) }]),
  );
}

const readRemaining = (db: Db, nowMs: number) =>
  transaction(
    db,
    async (tx) => (await lockSubscriptionBalances(tx, ["u1"], nowMs)).get("u1")?.[0]?.remainingNano,
  );

const later = (desk: MoneyContext, ms: number): MoneyContext => ({
  ...desk,
  clock: { nowMs: () => NOW_MS + ms },
});

eachEngine(({ open }) => {
  test("a top-up creates one entry with actor and reason, and increases the balance", async () => {
    const desk = await deskOn(await open());
    const booked = await topUp(desk, { userId: "u1", amountNano: usd("10"), provider: "manual", ...BY });
    expect(booked.wallet).toEqual({ balanceNano: usd("10"), heldNano: 0n });
    expect(await listUserEntries(desk.db, "u1", { limit: 9 })).toEqual([
      {
        id: "topup:entry_1",
        atMs: NOW_MS,
        kind: "topup",
        debit: "topup:manual",
        credit: "user:u1",
        amountNano: usd("10"),
        userId: "u1",
        subscriptionId: null,
        requestId: null,
        ...BY,
      },
    ]);
  });

  test("a repeated idempotency key returns the first result, and fails with other content", async () => {
    const desk = await deskOn(await open());
    const order = { userId: "u1", amountNano: usd("10"), provider: "manual", ...BY, idempotencyKey: "k-1" };
    const first = await topUp(desk, order);
    const again = await topUp({ ...desk, clock: { nowMs: () => NOW_MS + 5 } }, { ...order, reason: null });
    expect(again).toEqual({ ...first, repeated: true });
    expect(await rejection(topUp(desk, { ...order, amountNano: usd("11") }))).toBe("idempotency_conflict");
    expect(await rejection(topUp(desk, { ...order, userId: "u2" }))).toBe("idempotency_conflict");
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(usd("10"));
    expect((await readWallet(desk.db, "u2")).balanceNano).toBe(0n);
  });

  test("an idempotency key books one operation, across all kinds", async () => {
    const desk = await deskOn(await open());
    const order = { userId: "u1", amountNano: usd("10"), ...BY, idempotencyKey: "k-1" };
    await topUp(desk, { ...order, provider: "manual" });
    await charge(desk.db, "req_1", "10.00");
    expect(await rejection(adjust(desk, order))).toBe("idempotency_conflict");
    expect(await rejection(refund(desk, { ...order, requestId: "req_1" }))).toBe("idempotency_conflict");
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(0n);
  });

  test("ten concurrent requests with one idempotency key book once", async () => {
    const desk = await deskOn(await open());
    const order = { userId: "u1", amountNano: usd("1"), provider: "manual", ...BY, idempotencyKey: "k" };
    const all = await Promise.all(Array.from({ length: 10 }, () => topUp(desk, order)));
    expect(all.filter(({ repeated }) => !repeated)).toHaveLength(1);
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(usd("1"));
  });

  test("an invalid idempotency key is rejected", async () => {
    const desk = await deskOn(await open());
    for (const idempotencyKey of ["", "a b", "x".repeat(256), "é"]) {
      const call = adjust(desk, { userId: "u1", amountNano: 1n, ...BY, idempotencyKey });
      expect(await rejection(call)).toBe("bad_idempotency_key");
    }
  });

  test("an adjustment takes at most the available balance, never held money", async () => {
    const desk = await deskOn(await open());
    await adjust(desk, { userId: "u1", amountNano: usd("3"), ...BY });
    await takeHold(desk.db, "1.25");
    const tooMuch = adjust(desk, { userId: "u1", amountNano: -(usd("1.75") + 1n), ...BY });
    const error = await tooMuch.catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "insufficient_funds" });
    expect(String(error)).toContain("$1.75 is available");
    const { wallet, entry } = await adjust(desk, { userId: "u1", amountNano: -usd("1.75"), ...BY });
    expect(wallet).toEqual({ balanceNano: usd("1.25"), heldNano: usd("1.25") });
    expect(entry).toMatchObject({ debit: "user:u1", credit: "adjust", amountNano: usd("1.75") });
  });

  test("a zero amount, an excessive amount and an unknown user are rejected without a trace", async () => {
    const desk = await deskOn(await open());
    for (const amountNano of [0n, usd("1000000.000000001"), -usd("1000001")]) {
      const call = adjust(desk, { userId: "u1", amountNano, ...BY });
      expect(await rejection(call)).toBe("bad_amount");
    }
    const nobody = { userId: "nobody", amountNano: 1n, provider: "manual", ...BY };
    expect(await rejection(topUp(desk, nobody))).toBe("unknown_user");
    expect(await desk.db.sql`SELECT * FROM wallet`).toEqual([]);
  });

  test("a refund returns to the wallet that paid, in parts, never above the charge", async () => {
    const desk = await deskOn(await open());
    await topUp(desk, { userId: "u1", amountNano: usd("5"), provider: "manual", ...BY });
    await charge(desk.db, "req_1", "2.00");
    const part = await refund(desk, { requestId: "req_1", amountNano: usd("0.50"), ...BY });
    expect(part.entry).toMatchObject({
      debit: "refund",
      credit: "user:u1",
      requestId: "req_1",
      userId: "u1",
    });
    const above = refund(desk, { requestId: "req_1", amountNano: usd("1.50") + 1n, ...BY });
    const error = await above.catch((reason: unknown) => reason);
    expect(String(error)).toContain("$1.50 can still be refunded");
    const rest = await refund(desk, { requestId: "req_1", amountNano: "all", ...BY });
    expect(rest.entry.amountNano).toBe(usd("1.50"));
    expect(rest.wallet.balanceNano).toBe(usd("5"));
    expect(await rejection(refund(desk, { requestId: "req_1", amountNano: "all", ...BY }))).toBe(
      "refunded_before",
    );
    expect(await rejection(refund(desk, { requestId: "req_2", amountNano: "all", ...BY }))).toBe(
      "not_charged",
    );
  });

  test("a repeated full refund with the same idempotency key returns the first result", async () => {
    const desk = await deskOn(await open());
    await topUp(desk, { userId: "u1", amountNano: usd("5"), provider: "manual", ...BY });
    await charge(desk.db, "req_1", "2.00");
    await charge(desk.db, "req_2", "1.00");
    const order = { requestId: "req_1", amountNano: "all", ...BY, idempotencyKey: "r" } as const;
    const first = await refund(desk, order);
    expect(await refund(desk, order)).toEqual({ ...first, repeated: true });
    expect(await rejection(refund(desk, { ...order, requestId: "req_2" }))).toBe("idempotency_conflict");
    expect(await rejection(refund(desk, { ...order, amountNano: 1n }))).toBe("idempotency_conflict");
    const part = { ...order, requestId: "req_2", amountNano: usd("0.25"), idempotencyKey: "p" };
    await refund(desk, part);
    expect(await rejection(refund(desk, { ...part, amountNano: "all" }))).toBe("idempotency_conflict");
  });

  test("one key for the refunds of two concurrent requests books one of them", async () => {
    const desk = await deskOn(await open());
    await topUp(desk, { userId: "u1", amountNano: usd("5"), provider: "manual", ...BY });
    for (const requestId of ["req_1", "req_2"]) await charge(desk.db, requestId, "1.00");
    const both = ["req_1", "req_2"].map((requestId) =>
      rejection(refund(desk, { requestId, amountNano: "all", ...BY, idempotencyKey: "r" })),
    );
    expect((await Promise.all(both)).toSorted()).toEqual(["done", "idempotency_conflict"]);
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(usd("4"));
  });

  test("ten concurrent refunds never return more than the charge", async () => {
    const desk = await deskOn(await open());
    await topUp(desk, { userId: "u1", amountNano: usd("5"), provider: "manual", ...BY });
    await charge(desk.db, "req_1", "2.00");
    const tries = Array.from({ length: 10 }, () =>
      rejection(refund(desk, { requestId: "req_1", amountNano: usd("0.75"), ...BY })),
    );
    expect((await Promise.all(tries)).filter((outcome) => outcome === "done")).toHaveLength(2);
    expect((await readWallet(desk.db, "u1")).balanceNano).toBe(usd("4.50"));
  });

  test("a refund of a subscription charge returns to its open windows, and fails once all are over", async () => {
    const desk = await deskOn(await open());
    const { db } = desk;
    await chargeSubscription(db, "req_1", "2.00");
    const order = { requestId: "req_1", amountNano: usd("0.50"), ...BY };
    const { entry, wallet } = await refund(later(desk, 5), order);
    expect(entry).toMatchObject({ credit: "subscription:s", subscriptionId: "s", userId: "u1" });
    expect(wallet.balanceNano).toBe(0n);
    expect(await readRemaining(db, NOW_MS)).toBe(usd("3.50"));
    // The daily window is over, the monthly window is not.
    await refund(later(desk, DAY_MS), order);
    expect(await readRemaining(db, NOW_MS + DAY_MS)).toBe(usd("5"));
    expect(await rejection(refund(later(desk, 40 * DAY_MS), order))).toBe("window_over");
    expect(await findWrongWindows(db, 9)).toEqual([]);
    expect(await listUserEntries(db, "u1", { limit: 9 })).toHaveLength(3);
  });

  test("a charge of a subscription cancelled since is not refunded, and the error contains the reason", async () => {
    const desk = await deskOn(await open());
    await chargeSubscription(desk.db, "req_1", "2.00");
    await cancelSubscription(desk.db, "s");
    const attempt = refund(later(desk, 5), { requestId: "req_1", amountNano: "all", ...BY });
    expect(await attempt.catch((error: unknown) => error)).toMatchObject({
      code: "subscription_over",
      message: expect.stringContaining("was cancelled"),
    });
    expect(await findWrongWindows(desk.db, 9)).toEqual([]);
  });

  test("a refund is never dated before its charge, so windows count it after a clock change", async () => {
    const desk = await deskOn(await open());
    const { db } = desk;
    await chargeSubscription(db, "req_1", "2.00");
    const { entry } = await refund(later(desk, -DAY_MS / 2), {
      requestId: "req_1",
      amountNano: usd("0.50"),
      ...BY,
    });
    expect(entry.atMs).toBe(NOW_MS);
    // A window that begins after that clock time and is summed again.
    await grantPlan(db, [{ per: "day", usd: "5.00", counted: "rolling" }]);
    expect(await readRemaining(db, NOW_MS)).toBe(usd("3.50"));
    expect(await findWrongWindows(db, 9)).toEqual([]);
  });

  test("the ledger of a user is paged, newest first", async () => {
    const desk = await deskOn(await open());
    for (const atMs of [5, 7, 7, 9]) {
      await adjust({ ...desk, clock: { nowMs: () => atMs } }, { userId: "u1", amountNano: 1n, ...BY });
    }
    const first = await listUserEntries(desk.db, "u1", { limit: 2 });
    const last = first.at(-1);
    if (last === undefined) throw new Error("no page");
    const second = await listUserEntries(desk.db, "u1", { limit: 9, before: last });
    expect([...first, ...second].map(({ atMs }) => atMs)).toEqual([9, 7, 7, 5]);
    expect(new Set([...first, ...second].map(({ id }) => id)).size).toBe(4);
  });

  test("after any adjustments, the balance is the sum of its entries and never below zero", async () => {
    const desk = await deskOn(await open());
    const amount = fc.bigInt({ min: -(10n ** 10n), max: 10n ** 10n });
    await fc.assert(
      fc.asyncProperty(fc.array(amount, { minLength: 1, maxLength: 8 }), async (amounts) => {
        for (const amountNano of amounts) {
          await adjust(desk, { userId: "u1", amountNano, ...BY }).catch((error: unknown) => {
            if (!(error instanceof MoneyOperationRejected)) throw error;
          });
        }
        const entries = await listUserEntries(desk.db, "u1", { limit: 10_000 });
        const sum = entries.reduce(
          (total, { credit, amountNano }) => total + (credit === "user:u1" ? amountNano : -amountNano),
          0n,
        );
        const { balanceNano } = await readWallet(desk.db, "u1");
        expect(balanceNano).toBe(sum);
        expect(balanceNano >= 0n).toBe(true);
      }),
      { numRuns: 15 },
    );
  });
});
