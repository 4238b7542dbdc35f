import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { putUser } from "../../store/identity/users.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import { putPlan } from "../../store/money/plans.ts";
import { listGranted } from "../../store/money/subscriptions.ts";
import { grantPlan } from "./grant.ts";
import { adjust, type MoneyContext, topUp } from "./operations.ts";
import { MoneyOperationRejected } from "./rejection.ts";

const KEYS = 40;
const BY = { actor: "cli:ada", reason: null };
const WINDOWS = [{ per: "day", usd: "1.00", counted: "calendar" } as const];

async function prepare(db: Db): Promise<void> {
  await migrate(db);
  await putUser(db, userRecord("u1"));
  await putPlan(db, { id: "p", name: "pro", timeZone: "UTC", windows: WINDOWS, createdAtMs: 0 });
}

function deskOn(db: Db, node: string): MoneyContext & { clock: { nowMs(): number; monotonicMs(): number } } {
  let ids = 0;
  let nowMs = 1_000_000;
  return {
    db,
    // Two subscriptions of one plan may not start at the same millisecond.
    clock: { nowMs: () => nowMs++, monotonicMs: () => 0 },
    newId: (prefix) => `${prefix}_${node}_${++ids}`,
  };
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "done",
    (error: unknown) => (error instanceof MoneyOperationRejected ? error.code : String(error)),
  );

const plan = (idempotencyKey: string) =>
  ({
    userId: "u1",
    plan: "pro",
    startsAtMs: null,
    endsAtMs: null,
    renews: "none",
    priority: 1,
    idempotencyKey,
  }) as const;

eachEngine(({ emptyUrl }) => {
  test("one idempotency key, sent at once for a top-up and for a plan, executes one of the two", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await prepare(one);
    const [first, second] = [deskOn(one, "a"), deskOn(two, "b")];
    for (let i = 0; i < KEYS; i++) {
      const idempotencyKey = `key-${i}`;
      const outcomes = await Promise.all([
        outcome(topUp(first, { userId: "u1", amountNano: 1n, provider: "manual", ...BY, idempotencyKey })),
        outcome(grantPlan(second, { ...plan(idempotencyKey), startsAtMs: i })),
      ]);
      expect(outcomes.toSorted()).toEqual(["done", "idempotency_conflict"]);
    }
    const entries = await listUserEntries(one, "u1", { limit: 100 });
    expect(entries.length + (await listGranted(one, "u1")).length).toBe(KEYS);
    await one.close();
    await two.close();
  });

  test("a rejected order does not use up its idempotency key", async () => {
    const db = await openDb(await emptyUrl());
    await prepare(db);
    const desk = deskOn(db, "a");
    const idempotencyKey = "key";
    expect(await outcome(adjust(desk, { userId: "u1", amountNano: -5n, ...BY, idempotencyKey }))).toBe(
      "insufficient_funds",
    );
    expect((await grantPlan(desk, plan(idempotencyKey))).repeated).toBe(false);
    expect((await grantPlan(desk, plan(idempotencyKey))).repeated).toBe(true);
    expect(await outcome(adjust(desk, { userId: "u1", amountNano: 5n, ...BY, idempotencyKey }))).toBe(
      "idempotency_conflict",
    );
    await db.close();
  });

  test("idempotency keys from before there were claims still identify their operations", async () => {
    const db = await openDb(await emptyUrl());
    await prepare(db);
    const desk = deskOn(db, "a");
    await topUp(desk, { userId: "u1", amountNano: 1n, provider: "manual", ...BY, idempotencyKey: "money" });
    await grantPlan(desk, plan("plan"));
    await db.sql`DELETE FROM money_order`;
    expect(await outcome(grantPlan(desk, plan("money")))).toBe("idempotency_conflict");
    expect(await outcome(adjust(desk, { userId: "u1", amountNano: 1n, ...BY, idempotencyKey: "plan" }))).toBe(
      "idempotency_conflict",
    );
    await db.close();
  });
});
