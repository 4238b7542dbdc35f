import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { NO_BILLING } from "../../records/group.ts";
import type { PlanRecord, SubscriptionRecord } from "../../records/plan.ts";
import { groupRecord, userRecord } from "../../records/records.test-support.ts";
import { StoreConflict } from "../engine/conflict.ts";
import { readRevisions } from "../engine/revisions.ts";
import { deleteUser, putUser } from "../identity/users.ts";
import { deleteGroup, putGroup } from "../policy/groups.ts";
import { deletePlan, listPlans, putPlan } from "./plans.ts";
import { cancelSubscription, findSubscription, listSubscriptions, putSubscription } from "./subscriptions.ts";

const plan = (id: string): PlanRecord => ({
  id,
  name: `name of ${id}`,
  timeZone: "Europe/Berlin",
  windows: [
    { per: "day", usd: "0.000000001", counted: "calendar" },
    { per: "month", usd: "9000000.00", counted: "rolling" },
  ],
  createdAtMs: 1,
});
const user = userRecord("u");
const subscription = (id: string, changes: Partial<SubscriptionRecord> = {}): SubscriptionRecord => ({
  id,
  userId: "u",
  planId: "p",
  startsAtMs: 1_794_000_000_000,
  endsAtMs: null,
  renews: "none",
  priority: 0,
  status: "active",
  createdAtMs: 1,
  ...changes,
});
const group = (plans: string[] | null) =>
  groupRecord("g", { name: "g", billing: { ...NO_BILLING, charge: "subscription", plans } });

async function rejection(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
  } catch (error) {
    if (error instanceof StoreConflict) return `${error.reason}: ${error.message}`;
    throw error;
  }
  return "none";
}

eachEngine(({ open }) => {
  test("plans and subscriptions are read back as written, and writing again updates them", async () => {
    const db = await open();
    await putUser(db, user);
    await putPlan(db, plan("p"));
    await putSubscription(db, subscription("s"));
    expect(await listPlans(db)).toEqual([plan("p")]);
    expect(await listSubscriptions(db)).toEqual([subscription("s")]);
    const changed = subscription("s", { endsAtMs: 1_894_000_000_000, renews: "year", priority: 7 });
    await putSubscription(db, changed);
    await putPlan(db, { ...plan("p"), timeZone: "UTC" });
    expect(await findSubscription(db, "s")).toEqual(changed);
    expect(await findSubscription(db, "nobody")).toBeNull();
    expect((await listPlans(db)).map(({ timeZone }) => timeZone)).toEqual(["UTC"]);
  });

  test("plan names are unique, and a subscription needs its user and its plan", async () => {
    const db = await open();
    await putUser(db, user);
    await putPlan(db, plan("p"));
    expect(await rejection(putPlan(db, { ...plan("q"), name: "name of p" }))).toBe(
      'duplicate: Another plan is already named "name of p".',
    );
    expect(await rejection(putSubscription(db, subscription("s", { planId: "x" })))).toStartWith("missing: ");
    expect(await rejection(putSubscription(db, subscription("s", { userId: "x" })))).toStartWith("missing: ");
    expect(putPlan(db, { ...plan("p"), windows: [] })).rejects.toThrow("at least one window");
  });

  test("a plan that a group names or that was ever granted cannot be deleted", async () => {
    const db = await open();
    await putUser(db, user);
    await putPlan(db, plan("p"));
    await putGroup(db, group(["name of p"]));
    expect(await rejection(deletePlan(db, "p"))).toBe(
      'referenced: The plan "name of p" is used by group "g".',
    );
    await putGroup(db, group(null));
    await putSubscription(db, subscription("s", { status: "cancelled" }));
    expect(await rejection(deletePlan(db, "p"))).toBe(
      'referenced: The plan "name of p" still has subscription "s".',
    );
    await deleteGroup(db, "g");
    await putPlan(db, plan("q"));
    expect(await deletePlan(db, "q")).toBe(true);
    expect(await deletePlan(db, "q")).toBe(false);
  });

  test("deleting a user cancels the user's subscriptions", async () => {
    const db = await open();
    await putUser(db, user);
    await putPlan(db, plan("p"));
    await putSubscription(db, subscription("s"));
    await deleteUser(db, "u");
    expect((await listSubscriptions(db)).map(({ status }) => status)).toEqual(["cancelled"]);
  });

  test("every change increases the revision, so that an outdated plan does not apply", async () => {
    const db = await open();
    const seen = [await readRevisions(db)];
    await putUser(db, user);
    for (const change of [
      () => putPlan(db, plan("p")),
      () => putSubscription(db, subscription("s")),
      () => cancelSubscription(db, "s"),
    ]) {
      await change();
      seen.push(await readRevisions(db));
    }
    expect(new Set(seen.map((revisions) => JSON.stringify(revisions))).size).toBe(4);
  });
});
