import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../../test/support/eventually.ts";
import { eachEngine } from "../../../test/support/postgres.ts";
import type { Db } from "../../store/engine/db.ts";
import { integer } from "../../store/engine/row.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage, type UsageRow } from "../../store/usage/usage.ts";
import { removeUsageRows } from "../../store/usage/usage-removal.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  asking,
  LIMITS,
  makeRowTill,
  makeTill,
  mortal,
  recover,
  type TillUnderTest,
} from "../engine/direct-billing.test-support.ts";
import { listOrphanedJournals } from "../journal/left-journals.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";

/** Unpaid rows from `push` until the database has them, under every kind of failure. */

const ended = (requestId: string, change: Partial<UsageRow> = {}) =>
  usageRow({ requestId, atMs: Date.now(), userId: "u1", ...change });
const journals = ({ dir }: TillUnderTest) => readdirSync(dir).filter((name) => name.startsWith("journal-"));

async function counted(db: Db): Promise<{ rows: number; summed: number }> {
  const [count] = await db.sql`SELECT COUNT(*) AS many FROM usage`;
  const [sum] = await db.sql`SELECT CAST(COALESCE(SUM(requests), 0) AS BIGINT) AS many FROM usage_hour`;
  if (count === undefined || sum === undefined) throw new Error("A sum is one row.");
  return { rows: integer(count, "many"), summed: integer(sum, "many") };
}

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 })).findings;

/** The process pushed these rows, and nothing more of it reached the database. */
async function dieWith(db: Db, rows: readonly UsageRow[]): Promise<TillUnderTest> {
  const reach = mortal(db);
  const till = makeRowTill(reach, { incarnation: "inc_dead" });
  for (const row of rows) till.push(row);
  reach.kill();
  await till.stop();
  return till;
}

/** Another process recovers what is left in this folder. */
async function takeOver(db: Db, { dir }: TillUnderTest, incarnation = "inc_next"): Promise<void> {
  const till = makeRowTill(db, { incarnation, dir });
  const recovery = await recover(db, till);
  await recovery.stop();
  await till.stop();
}

eachEngine(({ open }) => {
  test("a row that the store never heard of outlives its process, whole and summed up", async () => {
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

  test("a row that the store has and the journal tells again is one row", async () => {
    const db = await open();
    const reach = mortal(db);
    const dead = makeRowTill(reach, { incarnation: "inc_dead" });
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

  test("a journal that two read at once, and a third later, is booked once", async () => {
    const db = await open();
    const dead = await dieWith(
      db,
      Array.from({ length: 40 }, (_, index) => ended(`r${index}`)),
    );
    const kept = journals(dead).map((name) => {
      const path = join(dead.dir, name);
      return { path, bytes: readFileSync(path) };
    });
    await Promise.all(["inc_a", "inc_b"].map((incarnation) => takeOver(db, dead, incarnation)));
    expect(await counted(db)).toEqual({ rows: 40, summed: 40 });
    for (const { path, bytes } of kept) writeFileSync(path, bytes);
    await takeOver(db, dead);
    expect(await counted(db)).toEqual({ rows: 40, summed: 40 });
    expect(journals(dead)).toEqual([]);
    expect(await findings(db)).toEqual([]);
  });

  test("a hold that came too late for its request is given back, and the row stays as it was told", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const reach = mortal(db);
    const dead = makeRowTill(reach, { incarnation: "inc_dead" });
    await makeTill(db, { incarnation: "inc_dead", dir: dead.dir }).hold(asking("r1"));
    const refused = ended("r1", { outcome: "refused", status: 503, errorCode: "store_unavailable" });
    dead.push(refused);
    reach.kill();
    await dead.stop();
    await takeOver(db, dead);
    expect(await findUsage(db, "r1")).toEqual(refused);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
  });

  test("a journal so old that its rows were removed brings none of them back", async () => {
    const db = await open();
    const reach = mortal(db);
    const dead = makeRowTill(reach, { incarnation: "inc_dead" });
    dead.push(ended("r1", { atMs: 2_000 }));
    await dead.flush();
    dead.push(ended("r2", { atMs: 1_000 }));
    reach.kill();
    await dead.stop();
    await removeUsageRows(db, Date.now() + 1, 100);
    await takeOver(db, dead);
    expect(await counted(db)).toEqual({ rows: 0, summed: 1 });
  });

  test("the journal is thrown away when the store has what it tells", async () => {
    const db = await open();
    const till = makeRowTill(db, { waitMs: 5, lookMs: 5 });
    till.push(ended("r1"));
    expect(journals(till)).not.toEqual([]);
    await eventually(() => journals(till).length === 0, 10_000);
    expect(await counted(db)).toEqual({ rows: 1, summed: 1 });
    till.push(ended("r2"));
    await till.flush();
    await till.stop();
    expect(journals(till)).toEqual([]);
  });

  test("segments are thrown away while more rows come, and none that the store lacks", async () => {
    const db = await open();
    const reach = mortal(db);
    const till = makeRowTill(reach, { waitMs: 1, lookMs: 1, incarnation: "inc_dead" });
    let pushed = 0;
    const first = () => journals(till).includes("journal-inc_dead.1.jsonl");
    await eventually(() => {
      for (let many = 0; many < 10; many++) till.push(ended(`r${++pushed}`));
      return pushed > 200 && !first();
    }, 10_000);
    reach.kill();
    till.push(ended("last"));
    await till.stop();
    await takeOver(db, till);
    expect(await counted(db)).toEqual({ rows: pushed + 1, summed: pushed + 1 });
  });

  test("a clean end without the store leaves the rows to whoever starts next", async () => {
    const db = await open();
    const reach = mortal(db);
    const till = makeRowTill(reach, { incarnation: "inc_dead" });
    reach.kill();
    till.push(ended("r1"));
    await expect(till.flush()).rejects.toThrow();
    await till.stop();
    await takeOver(db, till);
    expect(await counted(db)).toEqual({ rows: 1, summed: 1 });
  });

  test("a journal that cannot be written keeps no row from the store", async () => {
    const db = await open();
    const path = join(mkdtempSync(join(tmpdir(), "gateway-rows-")), "file");
    writeFileSync(path, "");
    const till = makeRowTill(db, { dir: path });
    for (const id of ["r1", "r2", "r3"]) till.push(ended(id));
    await till.flush();
    expect(await counted(db)).toEqual({ rows: 3, summed: 3 });
    expect(till.logged.filter(({ event }) => event === "journal_failed").length).toBe(1);
    await till.stop();
  });

  test("what a user has used is in the store when somebody asks for it", async () => {
    const db = await open();
    const till = makeRowTill(db);
    for (const id of ["r1", "r2", "r3"]) till.push(ended(id));
    till.push(ended("of another", { keyId: "k2", userId: "u2" }));
    await till.settleUp("u1");
    for (const id of ["r1", "r2", "r3"]) expect(await findUsage(db, id)).not.toBeNull();
    await till.flush();
    expect(await counted(db)).toEqual({ rows: 4, summed: 4 });
    await till.stop();
  });

  test("rows that wait for the store leave no room for more", async () => {
    const db = await open();
    const few = { ...LIMITS, gatherMs: 60_000, waitingMax: 2 };
    const till = makeTill(db, {
      limits: few,
      ...(db.engine === "sqlite" ? { express: { bookMs: 60_000 } } : {}),
    });
    till.push(ended("r1"));
    expect(till.hasRoom()).toBe(true);
    till.push(ended("r2"));
    expect(till.hasRoom()).toBe(false);
    await till.flush();
    expect(till.hasRoom()).toBe(true);
    await till.stop();
  });
});
