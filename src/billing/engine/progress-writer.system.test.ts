import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type Db, openDb, transaction } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { findHolds, writeProgress } from "../../store/money/holds.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
} from "./direct-billing.test-support.ts";

setDefaultTimeout(60_000);

let postgres: Postgres;
let db: Db;
let billingEngine: BillingUnderTest;

beforeAll(async () => {
  postgres = await startPostgres();
  db = await openDb(postgres.url);
  await migrate(db);
  await addFunds(db, "u1", 1_000_000n);
  billingEngine = makeBilling(db, { limits: { ...LIMITS, checkpointMs: 20 } });
});

afterAll(async () => {
  await billingEngine.stop();
  await db.close();
  await postgres.stop();
});

const storedTokens = async (requestId: string) =>
  (await findHolds(db, [requestId])).get(requestId)?.outputTokens;

test("a checkpoint is written while a batch waits for a lock", async () => {
  await billingEngine.hold(buildHoldRequest("stream"));
  await billingEngine.hold(buildHoldRequest("ended"));
  const other = await openDb(postgres.url);
  let settled: Promise<void> | null = null;
  await transaction(other, async (tx) => {
    await tx.sql.script("LOCK TABLE usage_row IN ACCESS EXCLUSIVE MODE");
    settled = billingEngine.settle(buildTestSettlement("ended", 30n));
    billingEngine.recordDispatch("stream", "a1", "fast");
    billingEngine.checkpoint("stream", 42);
    await eventually(() => storedTokens("stream"), { equals: 42, withinMs: 4_000 });
  });
  await settled;
  await other.close();
  await billingEngine.settle(buildTestSettlement("stream", 50n));
});

test("progress does not wait for a transaction that is ending the hold", async () => {
  await billingEngine.hold(buildHoldRequest("ending"));
  await billingEngine.hold(buildHoldRequest("running"));
  const other = await openDb(postgres.url);
  const progress = { state: "dispatched", accountId: "a1", upstreamModel: "fast", outputTokens: 7 } as const;
  await transaction(other, async (tx) => {
    await tx.sql`DELETE FROM hold WHERE request_id = 'ending'`;
    await writeProgress(db, [
      ["ending", progress],
      ["running", progress],
    ]);
    expect(await storedTokens("running")).toBe(7);
    await tx.sql`UPDATE wallet SET held_nano = held_nano - 100 WHERE user_id = 'u1'`;
  });
  await other.close();
  await billingEngine.settle(buildTestSettlement("running", 50n));
});
