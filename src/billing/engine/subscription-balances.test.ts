import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock } from "../../base/clock.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import type { PlanWindow, SubscriptionRecord } from "../../records/plan.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { type Db, openDb, transaction } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { putUser } from "../../store/identity/users.ts";
import { insertEntries, subscriptionBook } from "../../store/money/ledger.ts";
import { putPlan } from "../../store/money/plans.ts";
import { listSubscriptionStatuses } from "../../store/money/subscription-status.ts";
import { findWrongWindows } from "../../store/money/subscription-windows.ts";
import { cancelSubscription, putSubscription } from "../../store/money/subscriptions.ts";
import { cancelGrant } from "../operations/grant.ts";
import {
  changeWindows,
  computeRemaining,
  lockSubscriptionBalances,
  type SubscriptionBalance,
} from "./subscription-balances.ts";

const at = (text: string) => Date.parse(text);
const NOON = at("2027-03-10T12:00:00Z");
const DAY_MS = 86_400_000;
const DAILY: PlanWindow = { per: "day", usd: "5.00", counted: "calendar" };
const MONTHLY: PlanWindow = { per: "month", usd: "20.00", counted: "calendar" };

async function grant(db: Db, id: string, changes: Partial<SubscriptionRecord> = {}, windows = [DAILY]) {
  const userId = changes.userId ?? "u1";
  const planId = changes.planId ?? `plan-of-${id}`;
  await putUser(db, userRecord(userId));
  await putPlan(db, { id: planId, name: planId, timeZone: "UTC", windows, createdAtMs: 0 });
  await putSubscription(db, {
    id,
    userId,
    planId,
    startsAtMs: at("2027-01-01T00:00:00Z"),
    endsAtMs: null,
    renews: "none",
    priority: 1,
    status: "active",
    createdAtMs: 0,
    ...changes,
  });
}

const subscriptionBalances = (db: Db, nowMs: number, userId = "u1"): Promise<SubscriptionBalance[]> =>
  transaction(db, async (tx) => (await lockSubscriptionBalances(tx, [userId], nowMs)).get(userId) ?? []);

async function left(db: Db, nowMs: number): Promise<string[]> {
  return (await subscriptionBalances(db, nowMs)).map(
    ({ subscriptionId, remainingNano }) => `${subscriptionId} ${usdText(remainingNano)}`,
  );
}

/** The use of all windows that start at this time, open or closed. */
async function usedFrom(db: Db, startsAt: string): Promise<string[]> {
  const rows = await db.sql`
    SELECT CAST(used_nano AS TEXT) AS used, CAST(held_nano AS TEXT) AS held FROM subscription_window
    WHERE starts_at_ms = ${at(startsAt)}`;
  return rows.map(({ used, held }) => `${usdText(BigInt(String(used)))} ${usdText(BigInt(String(held)))}`);
}

let requests = 0;

/** A short version of the billing engine: a hold is a row and a change of its windows. */
async function hold(tx: Db, subscriptionId: string, usd: string, atMs: number): Promise<string> {
  const requestId = `r${++requests}`;
  await tx.sql`
    INSERT INTO hold (request_id, process_id, state, at_ms, user_id, subscription_id, amount_nano, tariff_id, key_id,
      group_id, interface, endpoint, public_model, stream, input_tokens, output_tokens)
    VALUES (${requestId}, 'i', 'admitted', ${atMs}, 'u1', ${subscriptionId}, ${parseUsd(usd).toString()}, 't', 'k',
      'g', 'chat', '/v1', 'm', 0, 0, 0)`;
  await changeWindows(tx, [{ subscriptionId, atMs, heldNano: parseUsd(usd), usedNano: 0n }]);
  return requestId;
}

async function settle(tx: Db, requestId: string, charged: string): Promise<void> {
  const [row] = await tx.sql`
    DELETE FROM hold WHERE request_id = ${requestId}
    RETURNING subscription_id, at_ms, CAST(amount_nano AS TEXT) AS amount_nano`;
  if (row === undefined) throw new Error("There is no such hold.");
  const subscriptionId = String(row.subscription_id);
  const atMs = Number(row.at_ms);
  await insertEntries(tx, [
    {
      id: `charge:${requestId}`,
      atMs,
      kind: "charge",
      debit: subscriptionBook(subscriptionId),
      credit: "revenue",
      amountNano: parseUsd(charged),
      userId: "u1",
      subscriptionId,
      requestId,
      actor: "system",
      reason: null,
    },
  ]);
  const heldNano = -BigInt(String(row.amount_nano));
  await changeWindows(tx, [{ subscriptionId, atMs, heldNano, usedNano: parseUsd(charged) }]);
}

eachEngine(({ open, emptyUrl }) => {
  describe("the remaining quota", () => {
    test("is the smallest remainder of all windows, with the time of its reset", async () => {
      const db = await open();
      await grant(db, "s", {}, [DAILY, MONTHLY]);
      expect(await subscriptionBalances(db, NOON)).toMatchObject([
        { planName: "plan-of-s", remainingNano: parseUsd("5"), resetsAtMs: at("2027-03-11T00:00:00Z") },
      ]);
      for (const day of [0, 1, 2, 3]) {
        await transaction(db, async (tx) => {
          await lockSubscriptionBalances(tx, ["u1"], NOON + day * DAY_MS);
          await settle(tx, await hold(tx, "s", "5.00", NOON + day * DAY_MS), "5.00");
        });
      }
      expect(await subscriptionBalances(db, NOON + 4 * DAY_MS)).toMatchObject([
        { remainingNano: 0n, resetsAtMs: at("2027-04-01T00:00:00Z") },
      ]);
      expect(await left(db, at("2027-04-01T00:00:00Z"))).toEqual(["s 5.00"]);
    });

    test("is zero, not negative, if the plan was reduced below the use", async () => {
      const db = await open();
      await grant(db, "s");
      await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        await hold(tx, "s", "4.00", NOON);
      });
      await grant(db, "s", {}, [{ ...DAILY, usd: "1.00" }]);
      expect(await left(db, NOON)).toEqual(["s 0.00"]);
    });

    test("has no reset time if the subscription ends before it", async () => {
      const db = await open();
      await grant(db, "s", { endsAtMs: NOON + 1_000 });
      await grant(db, "renewed", { endsAtMs: NOON + 1_000, renews: "month" });
      const resets = (await subscriptionBalances(db, NOON)).map(({ subscriptionId, resetsAtMs }) => [
        subscriptionId,
        resetsAtMs,
      ]);
      expect(Object.fromEntries(resets)).toEqual({ s: null, renewed: at("2027-03-11T00:00:00Z") });
    });
  });

  describe("a subscription hold", () => {
    test("is charged in the window of the hold, even if that window is over at settlement", async () => {
      const db = await open();
      await grant(db, "s");
      const before = at("2027-03-10T23:59:59Z");
      const after = at("2027-03-11T00:00:05Z");
      const id = await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], before);
        return hold(tx, "s", "3.00", before);
      });
      expect(await left(db, before)).toEqual(["s 2.00"]);
      expect(await left(db, after)).toEqual(["s 5.00"]);
      await transaction(db, (tx) => settle(tx, id, "2.50"));
      expect(await left(db, after)).toEqual(["s 5.00"]);
      expect(await usedFrom(db, "2027-03-10T00:00:00Z")).toEqual(["2.50 0.00"]);
    });

    test("survives a plan change: the new windows count what was held and used in their time", async () => {
      const db = await open();
      await grant(db, "s");
      const [kept] = await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        const ids = [await hold(tx, "s", "2.00", NOON), await hold(tx, "s", "1.00", NOON)];
        await settle(tx, ids[1] ?? "", "0.50");
        return ids;
      });
      await grant(db, "s", {}, [
        { per: "day", usd: "5.00", counted: "rolling" },
        { per: "week", usd: "4.00", counted: "calendar" },
      ]);
      expect(await left(db, NOON + 1)).toEqual(["s 1.50"]);
      await transaction(db, (tx) => settle(tx, kept ?? "", "0.25"));
      expect(await subscriptionBalances(db, NOON + 1)).toMatchObject([
        {
          windows: [
            { usedNano: parseUsd("0.75"), heldNano: 0n },
            { usedNano: parseUsd("0.75"), heldNano: 0n },
          ],
        },
      ]);
      // Back to the first plan: its windows were kept up to date.
      await grant(db, "s");
      expect(await left(db, NOON + 2)).toEqual(["s 4.25"]);
    });

    test("is settled although the subscription was cancelled", async () => {
      const db = await open();
      await grant(db, "s");
      const id = await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        return hold(tx, "s", "3.00", NOON);
      });
      expect(await cancelSubscription(db, "s")).toBe(true);
      expect(await cancelSubscription(db, "s")).toBe(false);
      expect(await subscriptionBalances(db, NOON)).toEqual([]);
      await transaction(db, (tx) => settle(tx, id, "1.00"));
      await grant(db, "s");
      expect(await left(db, NOON)).toEqual(["s 4.00"]);
    });

    test("in any order of operations, each window is the sum of its holds and entries", async () => {
      const db = await open();
      await grant(db, "s", {}, [DAILY, { ...MONTHLY, counted: "rolling" }]);
      const step = fc.record({
        forwardMs: fc.integer({ min: 0, max: DAY_MS }),
        act: fc.constantFrom("hold", "hold", "settle", "both"),
        cents: fc.integer({ min: 1, max: 99 }),
      });
      const [steps] = fc.sample(fc.array(step, { minLength: 60, maxLength: 60 }), { seed: 7, numRuns: 1 });
      const open_: string[] = [];
      let nowMs = NOON;
      for (const { forwardMs, act, cents } of steps ?? []) {
        nowMs += forwardMs;
        const usd = `0.${String(cents).padStart(2, "0")}`;
        await transaction(db, async (tx) => {
          await lockSubscriptionBalances(tx, ["u1"], nowMs);
          if (act !== "settle") open_.push(await hold(tx, "s", usd, nowMs));
          const oldest = act === "hold" ? undefined : open_.shift();
          if (oldest !== undefined) await settle(tx, oldest, "0.01");
        });
      }
      expect(await findWrongWindows(db, 10)).toEqual([]);
      const [rows] = await db.sql`SELECT COUNT(*) AS n FROM subscription_window`;
      expect(Number(rows?.n)).toBeGreaterThan(20);
      await db.sql`UPDATE subscription_window SET used_nano = used_nano + 1 WHERE per = 'month'`;
      expect(
        (await findWrongWindows(db, 1)).map(({ per, is, ought }) => [per, is.usedNano - ought.usedNano]),
      ).toEqual([["month", 1n]]);
    });

    test("counts a refund in the window of the charge, not of the refund", async () => {
      const db = await open();
      await grant(db, "s");
      const id = await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        const requestId = await hold(tx, "s", "2.00", NOON);
        await settle(tx, requestId, "2.00");
        return requestId;
      });
      await transaction(db, async (tx) => {
        await changeWindows(tx, [
          { subscriptionId: "s", atMs: NOON, heldNano: 0n, usedNano: -parseUsd("0.50") },
        ]);
        await insertEntries(tx, [
          {
            id: "refund:1",
            atMs: NOON + DAY_MS,
            kind: "refund",
            debit: "refund",
            credit: subscriptionBook("s"),
            amountNano: parseUsd("0.50"),
            userId: "u1",
            subscriptionId: "s",
            requestId: id,
            actor: "cli",
            reason: null,
          },
        ]);
      });
      expect(await left(db, NOON + DAY_MS)).toEqual(["s 5.00"]);
      expect(await usedFrom(db, "2027-03-10T00:00:00Z")).toEqual(["1.50 0.00"]);
      expect(await findWrongWindows(db, 10)).toEqual([]);
    });
  });

  describe("the order of payers", () => {
    test("is active subscriptions by priority, then by earlier end, then by age", async () => {
      const db = await open();
      await grant(db, "open", { planId: "p" });
      await grant(db, "ends-later", { planId: "p", endsAtMs: NOON + 9 * DAY_MS });
      await grant(db, "renews-soon", { planId: "p", endsAtMs: NOON - DAY_MS, renews: "month" });
      await grant(db, "ends-sooner", { planId: "p", endsAtMs: NOON + 2 * DAY_MS });
      await grant(db, "first", { planId: "p", priority: 0 });
      await grant(db, "ended", { planId: "p", priority: 0, endsAtMs: NOON });
      await grant(db, "upcoming", { planId: "p", priority: 0, startsAtMs: NOON + 1 });
      await grant(db, "cancelled", { planId: "p", priority: 0, status: "cancelled" });
      await grant(db, "somebody-elses", { planId: "p", userId: "u2" });
      expect((await subscriptionBalances(db, NOON)).map(({ subscriptionId }) => subscriptionId)).toEqual([
        "first",
        "ends-sooner",
        "ends-later",
        "renews-soon",
        "open",
      ]);
      expect(
        (await subscriptionBalances(db, NOON, "u2")).map(({ subscriptionId }) => subscriptionId),
      ).toEqual(["somebody-elses"]);
      expect(await subscriptionBalances(db, NOON, "nobody")).toEqual([]);
    });
  });

  describe("a clock that is set back", () => {
    test("keeps the open windows, for holds and for reads", async () => {
      const db = await open();
      await grant(db, "s", { endsAtMs: NOON - DAY_MS, renews: "month" }, [DAILY, MONTHLY]);
      await transaction(db, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        await settle(tx, await hold(tx, "s", "4.00", NOON), "4.00");
      });
      for (const days of [1, 20, 400]) {
        const backMs = NOON - days * DAY_MS;
        const starts = at("2027-01-01T00:00:00Z") > backMs ? [] : [at("2027-03-10T00:00:00Z")];
        const [purse] = await subscriptionBalances(db, backMs);
        expect([purse?.atMs ?? []].flat()).toEqual(starts);
        const [status] = await listSubscriptionStatuses(db, "u1", backMs);
        expect(status?.windows.slice(0, 1).map(({ startsAtMs }) => startsAtMs) ?? []).toEqual(starts);
        expect(status?.windows.map(({ remainingNano }) => remainingNano)).toEqual(
          purse?.windows.map(computeRemaining) ?? [],
        );
      }
      expect(await left(db, NOON + 1)).toEqual(["s 1.00"]);
      expect(await left(db, at("2027-03-11T00:00:00Z"))).toEqual(["s 5.00"]);
    });

    test("does not change the end of a subscription's current term", async () => {
      const db = await open();
      await grant(db, "s", { endsAtMs: NOON - DAY_MS, renews: "month" });
      await subscriptionBalances(db, NOON);
      const backMs = NOON - 2 * DAY_MS;
      const endsAtMs = at("2027-04-09T12:00:00Z");
      expect(await listSubscriptionStatuses(db, "u1", backMs)).toMatchObject([{ endsAtMs }]);
      expect(
        await cancelGrant({ db, clock: { ...systemClock, nowMs: () => backMs } }, "s", "term_end"),
      ).toEqual({
        kind: "ending",
        endsAtMs,
      });
      expect(await left(db, backMs)).toEqual(["s 5.00"]);
    });

    test("does not reactivate a subscription that ended before its open windows", async () => {
      const db = await open();
      await grant(db, "s");
      await subscriptionBalances(db, NOON);
      await grant(db, "s", { endsAtMs: NOON - DAY_MS });
      const backMs = NOON - 2 * DAY_MS;
      expect(await subscriptionBalances(db, backMs)).toEqual([]);
      expect(await listSubscriptionStatuses(db, "u1", backMs)).toEqual([]);
      const [past] = await listSubscriptionStatuses(db, "u1", backMs, { past: true });
      expect(past).toMatchObject({ state: "ended", windows: [] });
    });
  });

  test("two concurrent nodes never hold more than a window has", async () => {
    const url = await emptyUrl();
    const nodes = [await openDb(url), await openDb(url)];
    const [first] = nodes;
    if (first === undefined) throw new Error("There is no node.");
    try {
      await migrate(first);
      await grant(first, "s", {}, [{ ...DAILY, usd: "0.50" }, MONTHLY]);
      let held = 0;
      const ask = (node: Db) =>
        transaction(node, async (tx) => {
          const [subscriptionBalance] = (await lockSubscriptionBalances(tx, ["u1"], NOON)).get("u1") ?? [];
          if (subscriptionBalance === undefined || subscriptionBalance.remainingNano < parseUsd("0.02"))
            return;
          await hold(tx, "s", "0.02", NOON);
          held += 1;
        });
      await Promise.all(Array.from({ length: 60 }, (_, i) => ask(nodes[i % 2] ?? first)));
      expect(held).toBe(25);
      expect(await left(first, NOON)).toEqual(["s 0.00"]);
    } finally {
      for (const node of nodes) await node.close();
    }
  }, 60_000);

  test("a window that one node opens while another settles in it counts both", async () => {
    const url = await emptyUrl();
    const nodes = [await openDb(url), await openDb(url)];
    const [a, b] = nodes;
    if (a === undefined || b === undefined) throw new Error("There is no node.");
    try {
      await migrate(a);
      await grant(a, "s");
      const ids = await transaction(a, async (tx) => {
        await lockSubscriptionBalances(tx, ["u1"], NOON);
        return [await hold(tx, "s", "1.00", NOON), await hold(tx, "s", "1.00", NOON)];
      });
      await grant(a, "s", {}, [{ ...DAILY, usd: "9.00" }, MONTHLY]);
      await Promise.all([
        subscriptionBalances(a, NOON),
        transaction(b, (tx) => settle(tx, ids[0] ?? "", "0.50")),
        subscriptionBalances(b, NOON),
        transaction(a, (tx) => settle(tx, ids[1] ?? "", "0.25")),
      ]);
      const [purse] = await subscriptionBalances(a, NOON);
      expect(purse?.windows.map(({ usedNano, heldNano }) => [usdText(usedNano), usdText(heldNano)])).toEqual([
        ["0.75", "0.00"],
        ["0.75", "0.00"],
      ]);
    } finally {
      for (const node of nodes) await node.close();
    }
  }, 60_000);

  test("listing subscriptions writes nothing and returns ended ones only on request", async () => {
    const db = await open();
    await grant(db, "s", { endsAtMs: NOON - DAY_MS, renews: "month" }, [DAILY, MONTHLY]);
    await grant(db, "upcoming", { startsAtMs: NOON + 1 });
    await grant(db, "ended", { endsAtMs: NOON });
    const [fresh] = await listSubscriptionStatuses(db, "u1", NOON);
    expect(fresh?.windows.map(({ remainingNano }) => usdText(remainingNano))).toEqual(["5.00", "20.00"]);
    expect(await db.sql`SELECT per FROM subscription_window`).toEqual([]);
    await transaction(db, async (tx) => {
      await lockSubscriptionBalances(tx, ["u1"], NOON);
      await hold(tx, "s", "1.00", NOON);
      await settle(tx, await hold(tx, "s", "3.00", NOON), "2.00");
    });
    const statuses = await listSubscriptionStatuses(db, "u1", NOON);
    expect(statuses.map(({ id, state }) => `${id} ${state}`)).toEqual(["s running", "upcoming upcoming"]);
    expect(statuses[0]).toMatchObject({
      planName: "plan-of-s",
      endsAtMs: at("2027-04-09T12:00:00Z"),
      windows: [
        {
          per: "day",
          counted: "calendar",
          startsAtMs: at("2027-03-10T00:00:00Z"),
          endsAtMs: at("2027-03-11T00:00:00Z"),
          limitNano: parseUsd("5"),
          usedNano: parseUsd("2"),
          heldNano: parseUsd("1"),
          remainingNano: parseUsd("2"),
        },
        { per: "month", remainingNano: parseUsd("17") },
      ],
    });
    expect(statuses[1]?.windows).toEqual([]);
    // Windows without a row are summed from the ledger.
    await grant(db, "s", {}, [{ per: "week", usd: "5.00", counted: "rolling" }]);
    expect((await listSubscriptionStatuses(db, "u1", NOON))[0]?.windows).toMatchObject([
      { usedNano: parseUsd("2"), heldNano: parseUsd("1"), remainingNano: parseUsd("2") },
    ]);
    expect(await listSubscriptionStatuses(db, "u1", NOON, { past: true })).toHaveLength(3);
  });
});
