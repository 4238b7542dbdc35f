import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import type { Db } from "../../store/engine/db.ts";
import { integer } from "../../store/engine/row.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage, type UsageRow } from "../../store/usage/usage.ts";
import { removeUsageRows } from "../../store/usage/usage-removal.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  LIMITS,
  makeBilling,
  makeBillingWithJournal,
  makeKillableDb,
  recover,
} from "../engine/direct-billing.test-support.ts";
import { listOrphanedJournals } from "../journal/orphaned-journals.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";

/** Unpaid rows from `push` until the database has them, under every kind of failure. */

const ended = (requestId: string, change: Partial<UsageRow> = {}) =>
  usageRow({ requestId, atMs: Date.now(), userId: "u1", ...change });
const journals = ({ dir }: BillingUnderTest) =>
  readdirSync(dir).filter((name) => name.startsWith("journal-"));

async function counted(db: Db): Promise<{ rows: number; summed: number }> {
  const [count] = await db.sql`SELECT COUNT(*) AS many FROM usage`;
  const [sum] = await db.sql`SELECT CAST(COALESCE(SUM(requests), 0) AS BIGINT) AS many FROM usage_hour`;
  if (count === undefined || sum === undefined) throw new Error("A sum is one row.");
  return { rows: integer(count, "many"), summed: integer(sum, "many") };
}

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;

/** The process pushed these rows, and nothing later reached the database. */
async function dieWith(db: Db, rows: readonly UsageRow[]): Promise<BillingUnderTest> {
  const reach = makeKillableDb(db);
  const billingEngine = makeBillingWithJournal(reach, { processId: "inc_dead" });
  for (const row of rows) billingEngine.push(row);
  reach.kill();
  await billingEngine.stop();
  return billingEngine;
}

/** Another process recovers the files in this folder. */
async function takeOver(db: Db, { dir }: BillingUnderTest, processId = "inc_next"): Promise<void> {
  const billingEngine = makeBillingWithJournal(db, { processId, dir });
  const recovery = await recover(db, billingEngine);
  await recovery.stop();
  await billingEngine.stop();
}

eachEngine(({ open }) => {
  test("a row that only the journal has survives the process, complete and rolled up", async () => {
    const db = await open();
    const rows = [
      ended("r1", {
        accountId: "acc_1",
        upstreamModel: "gpt",
        responseId: "resp_1",
        costNano: 10n ** 14n,
      }),
      ended("r2", { keyId: "k2", userId: null, outcome: "refused", status: 429, errorCode: "rate_limited" }),
      ended("r3", { trace: '{"a":["b"]}', flags: ["estimated"], firstByteMs: 7, upstreamNano: 5n }),
    ];
    const dead = await dieWith(db, rows);
    expect(await counted(db)).toEqual({ rows: 0, summed: 0 });
    await takeOver(db, dead);
    for (const row of rows) expect(await findUsage(db, row.requestId)).toEqual(row);
    expect(await counted(db)).toEqual({ rows: 3, summed: 2 });
    expect(await findings(db)).toEqual([]);
    expect(journals(dead)).toEqual([]);
  });

  test("a row that is in the database and in the journal is stored once", async () => {
    const db = await open();
    const reach = makeKillableDb(db);
    const dead = makeBillingWithJournal(reach, { processId: "inc_dead" });
    dead.push(ended("r1"));
    await dead.flush();
    dead.push(ended("r2"));
    reach.kill();
    await dead.stop();
    expect(listOrphanedJournals(dead.dir, () => false)[0]?.rows.map(({ requestId }) => requestId)).toContain(
      "r1",
    );
    await takeOver(db, dead);
    expect(await counted(db)).toEqual({ rows: 2, summed: 2 });
  });

  test("a journal read by two processes at once, and later by a third, is booked once", async () => {
    const db = await open();
    const dead = await dieWith(
      db,
      Array.from({ length: 40 }, (_, index) => ended(`r${index}`)),
    );
    const kept = journals(dead).map((name) => {
      const path = join(dead.dir, name);
      return { path, bytes: readFileSync(path) };
    });
    await Promise.all(["inc_a", "inc_b"].map((processId) => takeOver(db, dead, processId)));
    expect(await counted(db)).toEqual({ rows: 40, summed: 40 });
    for (const { path, bytes } of kept) writeFileSync(path, bytes);
    await takeOver(db, dead);
    expect(await counted(db)).toEqual({ rows: 40, summed: 40 });
    expect(journals(dead)).toEqual([]);
    expect(await findings(db)).toEqual([]);
  });

  test("a hold committed after its request was rejected is released, and the row is unchanged", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const reach = makeKillableDb(db);
    const dead = makeBillingWithJournal(reach, { processId: "inc_dead" });
    await makeBilling(db, { processId: "inc_dead", dir: dead.dir }).hold(buildHoldRequest("r1"));
    const refused = ended("r1", { outcome: "refused", status: 503, errorCode: "store_unavailable" });
    dead.push(refused);
    reach.kill();
    await dead.stop();
    await takeOver(db, dead);
    expect(await findUsage(db, "r1")).toEqual(refused);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
  });

  test("recovering an old journal does not restore rows that retention removed", async () => {
    const db = await open();
    const reach = makeKillableDb(db);
    const dead = makeBillingWithJournal(reach, { processId: "inc_dead" });
    dead.push(ended("r1", { atMs: 2_000 }));
    await dead.flush();
    dead.push(ended("r2", { atMs: 1_000 }));
    reach.kill();
    await dead.stop();
    await removeUsageRows(db, { beforeMs: Date.now() + 1, rowsMax: 100 });
    await takeOver(db, dead);
    expect(await counted(db)).toEqual({ rows: 0, summed: 1 });
  });

  test("the journal is deleted once the database has its rows", async () => {
    const db = await open();
    const billingEngine = makeBillingWithJournal(db, { waitMs: 5, checkIntervalMs: 5 });
    billingEngine.push(ended("r1"));
    expect(journals(billingEngine)).not.toEqual([]);
    await eventually(() => journals(billingEngine).length, { equals: 0 });
    expect(await counted(db)).toEqual({ rows: 1, summed: 1 });
    billingEngine.push(ended("r2"));
    await billingEngine.flush();
    await billingEngine.stop();
    expect(journals(billingEngine)).toEqual([]);
  });

  test("under load, segments are deleted only after the database has their rows", async () => {
    const db = await open();
    const reach = makeKillableDb(db);
    const billingEngine = makeBillingWithJournal(reach, {
      waitMs: 1,
      checkIntervalMs: 1,
      processId: "inc_dead",
    });
    let pushed = 0;
    const first = () => journals(billingEngine).includes("journal-inc_dead.1.jsonl");
    await eventually(() => {
      for (let many = 0; many < 10; many++) billingEngine.push(ended(`r${++pushed}`));
      return pushed > 200 && !first();
    });
    reach.kill();
    billingEngine.push(ended("last"));
    await billingEngine.stop();
    await takeOver(db, billingEngine);
    expect(await counted(db)).toEqual({ rows: pushed + 1, summed: pushed + 1 });
  });

  test("a clean stop leaves no journal", async () => {
    const db = await open();
    const billingEngine = makeBillingWithJournal(db);
    for (let index = 0; index < 20; index++) billingEngine.push(ended(`r${index}`));
    expect(journals(billingEngine)).not.toEqual([]);
    await billingEngine.flush();
    await billingEngine.stop();
    expect(journals(billingEngine)).toEqual([]);
  });

  test("a clean end without the store leaves the rows to the next process", async () => {
    const db = await open();
    const reach = makeKillableDb(db);
    const billingEngine = makeBillingWithJournal(reach, { processId: "inc_dead" });
    reach.kill();
    billingEngine.push(ended("r1"));
    await expect(billingEngine.flush()).rejects.toThrow();
    await billingEngine.stop();
    await takeOver(db, billingEngine);
    expect(await counted(db)).toEqual({ rows: 1, summed: 1 });
  });

  test("a journal that cannot be written does not keep rows from the database", async () => {
    const db = await open();
    const path = join(mkdtempSync(join(tmpdir(), "gateway-rows-")), "file");
    writeFileSync(path, "");
    const billing = makeBillingWithJournal(db, { dir: path });
    for (const id of ["r1", "r2", "r3"]) billing.push(ended(id));
    await billing.flush();
    expect(await counted(db)).toEqual({ rows: 3, summed: 3 });
    expect(billing.logged.filter(({ event }) => event === "journal_failed").length).toBe(1);
    await billing.stop();
  });

  test("flushing a user writes the user's rows to the database", async () => {
    const db = await open();
    const billing = makeBillingWithJournal(db);
    for (const id of ["r1", "r2", "r3"]) billing.push(ended(id));
    billing.push(ended("of another", { keyId: "k2", userId: "u2" }));
    await billing.flushUser("u1");
    for (const id of ["r1", "r2", "r3"]) expect(await findUsage(db, id)).not.toBeNull();
    await billing.flush();
    expect(await counted(db)).toEqual({ rows: 4, summed: 4 });
    await billing.stop();
  });

  test("rows that wait for the database use up the capacity", async () => {
    const db = await open();
    const few = { ...LIMITS, unpaidRowDelayMs: 60_000, waitingMax: 2 };
    const billing = makeBilling(db, {
      limits: few,
      ...(db.engine === "sqlite" ? { writeBehind: { smallBatchDelayMs: 60_000 } } : {}),
    });
    billing.push(ended("r1"));
    expect(billing.hasCapacity()).toBe(true);
    billing.push(ended("r2"));
    expect(billing.hasCapacity()).toBe(false);
    await billing.flush();
    expect(billing.hasCapacity()).toBe(true);
    await billing.stop();
  });
});
