import { expect, test } from "bun:test";
import { eachEngine } from "../../test/postgres.ts";
import { NO_LIMITS } from "../records.ts";
import type { Db } from "../store/db.ts";
import { findEntry } from "../store/ledger.ts";
import { putPlan } from "../store/plans.ts";
import { putSubscription } from "../store/subscriptions.ts";
import { findUsage } from "../store/usage.ts";
import { putUser } from "../store/users.ts";
import { audit } from "./audit.ts";
import { addFunds, asking, makeTill, settling } from "./till.test-support.ts";

/** Ten nano-dollars times a hundred a day. */
async function grant(db: Db, id: string, usd: string, priority: number): Promise<void> {
  await putPlan(db, {
    id: `plan_${id}`,
    name: `plan-${id}`,
    timeZone: "UTC",
    windows: [{ per: "day", usd, counted: "calendar" }],
    createdAtMs: 0,
  });
  await putSubscription(db, {
    id,
    userId: "u1",
    planId: `plan_${id}`,
    startsAtMs: 0,
    endsAtMs: null,
    renews: "none",
    priority,
    status: "active",
    createdAtMs: 0,
  });
}

async function someone(db: Db): Promise<void> {
  await putUser(db, {
    id: "u1",
    email: "u1@example.com",
    role: "user",
    status: "active",
    passwordHash: null,
    groups: [],
    limits: NO_LIMITS,
    createdAtMs: 0,
  });
}

const charge = "subscription" as const;

eachEngine(({ open }) => {
  test("the first subscription that has enough pays, and its window and entry say so", async () => {
    const db = await open();
    await someone(db);
    await addFunds(db, "u1", 1_000n);
    await grant(db, "s1", "0.000000150", 1);
    await grant(db, "s2", "0.000000400", 2);
    const till = makeTill(db);
    const held = await Promise.all(["r1", "r2", "r3"].map((id) => till.hold(asking(id, { charge }))));
    expect(held).toEqual([
      { kind: "held", amountNano: 100n, subscriptionId: "s1" },
      { kind: "held", amountNano: 50n, subscriptionId: "s1" },
      { kind: "held", amountNano: 100n, subscriptionId: "s2" },
    ]);
    const only = { charge, plans: ["plan-s1"] };
    expect(await till.hold(asking("r4", only))).toMatchObject({ kind: "short", availableNano: 0n });
    const bySubscription = (id: string, nano: bigint) => {
      const settlement = settling(id, nano);
      return till.settle({ ...settlement, row: { ...settlement.row, payer: "subscription" } });
    };
    await Promise.all([
      bySubscription("r1", 30n),
      till.hold(asking("r5", { charge })),
      bySubscription("r3", 5n),
    ]);
    expect(await findUsage(db, "r1")).toMatchObject({ payer: "subscription", chargedNano: 30n });
    expect(await findEntry(db, "charge:r1")).toMatchObject({
      debit: "subscription:s1",
      subscriptionId: "s1",
      amountNano: 30n,
    });
    const { findings } = await audit(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 });
    expect(findings).toEqual([]);
    await till.stop();
  });
});
