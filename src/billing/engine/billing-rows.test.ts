import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { type BillingUnderTest, LIMITS, makeBilling } from "./direct-billing.test-support.ts";
import { type BillingLimits, BillingUnavailable } from "./direct-billing.ts";

/** Unpaid rows, which no request waits for. */

let db: Db;
let writes: number;
let failures: number;
let isAway: boolean;
let billingEngine: BillingUnderTest | null;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  writes = 0;
  failures = 0;
  isAway = false;
  billingEngine = null;
});

afterEach(async () => {
  await billingEngine?.stop();
  await db.close();
});

/** A billing engine that does nothing by itself unless the test triggers it. */
function openTill(change: Partial<BillingLimits> = {}): BillingUnderTest {
  const store: Db = {
    ...db,
    begin(mode, work) {
      if (isAway) {
        failures++;
        return Promise.reject(new Error("connection refused"));
      }
      writes++;
      return db.begin(mode, work);
    },
  };
  billingEngine = makeBilling(store, {
    limits: { ...LIMITS, unpaidRowDelayMs: 3_600_000, retryMs: 1, ...change },
  });
  return billingEngine;
}

const row = (requestId: string) => usageRow({ requestId });

async function stored(): Promise<string[]> {
  const rows = await db.sql`SELECT request_id FROM usage ORDER BY request_id`;
  return rows.map((found) => String(found.request_id));
}

describe("unpaid usage rows", () => {
  test("that wait at the same time are written in one batch", async () => {
    const rows = openTill();
    for (const id of ["r1", "r2", "r3"]) rows.push(row(id));
    expect(await stored()).toEqual([]);
    await rows.flush();
    expect([await stored(), writes]).toEqual([["r1", "r2", "r3"], 1]);
  });

  test("are written without a flush after the batching delay", async () => {
    const rows = openTill({ unpaidRowDelayMs: 1 });
    rows.push(row("r1"));
    await eventually(async () => (await stored()).length, { equals: 1 });
    rows.push(row("r2"));
    await eventually(async () => (await stored()).length, { equals: 2 });
    expect(writes).toBe(2);
  });

  test("are written at once when a batch is full, and a batch is never larger", async () => {
    const rows = openTill({ batchMax: 2 });
    for (const id of ["r1", "r2", "r3", "r4"]) rows.push(row(id));
    await eventually(async () => (await stored()).length, { equals: 4 });
    expect(writes).toBe(2);
  });

  test("that arrive during a write are part of the next flush", async () => {
    const rows = openTill({ batchMax: 1 });
    rows.push(row("r1"));
    rows.push(row("r2"));
    const flushing = rows.flush();
    rows.push(row("r3"));
    await flushing;
    expect(await stored()).toContain("r2");
    await rows.flush();
    expect(await stored()).toEqual(["r1", "r2", "r3"]);
  });

  test("cause no write if there are none", async () => {
    await openTill().flush();
    expect(writes).toBe(0);
  });
});

describe("while the database rejects writes", () => {
  test("rows are kept and retried, and none is lost or duplicated", async () => {
    const rows = openTill({ unpaidRowDelayMs: 1, batchMax: 2 });
    isAway = true;
    for (const id of ["r1", "r2", "r3"]) rows.push(row(id));
    await eventually(() => failures >= 3);
    expect(rows.logged).toMatchObject([{ event: "billing_write_failed", fields: { rows: 2 } }]);
    isAway = false;
    await eventually(async () => (await stored()).length, { equals: 3 });
    expect(rows.logged.at(-1)?.event).toBe("billing_write_succeeded");
    await rows.flush();
    expect(await stored()).toEqual(["r1", "r2", "r3"]);
    const [sum] = await db.sql`SELECT SUM(requests) AS requests FROM usage_hour`;
    expect(Number(sum?.requests)).toBe(3);
  });

  test("a flush fails", async () => {
    const rows = openTill();
    isAway = true;
    rows.push(row("r1"));
    await expect(rows.flush()).rejects.toBeInstanceOf(BillingUnavailable);
    isAway = false;
    await rows.flush();
    expect(await stored()).toEqual(["r1"]);
  });
});
