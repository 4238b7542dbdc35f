import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/postgres.ts";
import { limits } from "../../config/product-limits.ts";
import { systemClock } from "../../net/wire/clock.ts";
import { openKeyring } from "../../secrets/keyring.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { listProcesses, type ProcessRecord } from "../../store/money/processes.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  asking,
  makeTill,
  recover,
  settling,
  type TillUnderTest,
} from "../engine/direct-billing.test-support.ts";
import { openSettlementSpool } from "../engine/settlement-spool.ts";
import { openIdempotency } from "../idempotency/idempotency.ts";
import { openJournal } from "../journal/journal.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { describeProcess } from "./process-watch.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 })).findings;
const eager = { ...limits.till, progressMs: 1, checkpointMs: 1 };

/** Another process of this host that no longer runs. */
const gone = (id: string): ProcessRecord => ({ ...describeProcess(id, Date.now()), pid: 4_000_000 });

/** The process wrote its heartbeat, made these holds and died. */
async function dieWith(db: Db, work: (till: TillUnderTest) => Promise<void>, dir?: string): Promise<void> {
  const till = makeTill(db, {
    incarnation: "inc_dead",
    limits: eager,
    ...(dir === undefined ? {} : { dir }),
  });
  const { id, host, pid, startedAtMs, beatAtMs } = gone("inc_dead");
  await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms)
    VALUES (${id}, ${host}, ${pid}, ${startedAtMs}, ${beatAtMs})`;
  await work(till);
  await till.flush();
  await till.stop();
}

eachEngine(({ open, emptyUrl }) => {
  test("what had not been sent is not charged, and what had been is charged by what was seen of it", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await dieWith(db, async (till) => {
      await Promise.all(["admitted", "sent", "streaming", "much"].map((id) => till.hold(asking(id))));
      for (const id of ["sent", "streaming", "much"]) till.dispatched(id, "acc_1", "gpt");
      till.checkpoint("streaming", 30);
      till.checkpoint("much", 1_000);
    });
    const till = makeTill(db, { incarnation: "inc_new" });
    const recovery = await recover(db, till);
    expect(await findUsage(db, "admitted")).toMatchObject({
      outcome: "failed",
      chargedNano: 0n,
      usageSource: "none",
      flags: ["recovered"],
    });
    expect(await findUsage(db, "sent")).toMatchObject({
      outcome: "upstream_cut",
      chargedNano: 20n,
      usageSource: "partial",
      accountId: "acc_1",
      flags: ["recovered"],
    });
    expect(await findUsage(db, "streaming")).toMatchObject({ chargedNano: 50n, outputTokens: 30 });
    expect(await findUsage(db, "much")).toMatchObject({ chargedNano: 100n, costNano: 1_020n });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 830n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    expect((await listProcesses(db)).map(({ id }) => id)).toEqual(["inc_new"]);
    await recovery.stop();
    await recovery.forget();
    await till.stop();
    expect(await listProcesses(db)).toEqual([]);
  });

  test("a hold that cannot be settled is left for the operator, and does not keep the others", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await dieWith(db, async (till) => {
      await Promise.all(["good", "spoilt"].map((id) => till.hold(asking(id))));
      for (const id of ["good", "spoilt"]) till.dispatched(id, "acc_1", "gpt");
    });
    await db.sql`INSERT INTO tariff (id, terms) VALUES ('bad', '{}')`;
    await db.sql`UPDATE hold SET tariff_id = 'bad' WHERE request_id = 'spoilt'`;
    const till = makeTill(db, { incarnation: "inc_new" });
    const recovery = await recover(db, till);
    expect(await findUsage(db, "good")).toMatchObject({ chargedNano: 20n });
    expect(await findUsage(db, "spoilt")).toBeNull();
    await recovery.reap();
    await recovery.stop();
    await till.stop();
  });

  test("the holds of a living process are left alone", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const alive = makeTill(db, { incarnation: "inc_alive" });
    await alive.hold(asking("r1"));
    const first = await recover(db, alive);
    const other = makeTill(db, { incarnation: "inc_other" });
    const second = await recover(db, other, {
      self: { ...describeProcess("inc_other", Date.now()), pid: 4_000_000 },
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await second.stop();
    await first.stop();
    await alive.stop();
    await other.stop();
  });

  test("a process elsewhere is dead once its heartbeat was seen unchanged for long", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeTill(db, { incarnation: "inc_away" });
    await away.hold(asking("r1"));
    const beatAt = (atMs: number) =>
      db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms)
        VALUES ('inc_away', 'elsewhere', 1, 1, ${atMs})
        ON CONFLICT (id) DO UPDATE SET beat_at_ms = excluded.beat_at_ms`;
    // Its heartbeat claims to be an hour old, which proves nothing.
    await beatAt(Date.now() - 3_600_000);
    const till = makeTill(db, { incarnation: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, till, { clock: { ...systemClock, monotonicMs: () => monotonicMs } });
    const look = async (afterMs: number) => {
      monotonicMs += afterMs;
      await recovery.reap();
      return (await readWallet(db, "u1")).heldNano;
    };
    for (let looks = 0; looks < 3; looks++) expect(await look(15_000)).toBe(100n);
    // Its heartbeat changes, by a clock that is far behind.
    await beatAt(5);
    for (let looks = 0; looks < 4; looks++) expect(await look(15_000)).toBe(100n);
    expect(await look(15_000)).toBe(0n);
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 0n, flags: ["recovered"] });
    // The process was only slow: its settlement counts.
    await away.settle(settling("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, flags: [] });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await till.stop();
    await away.stop();
  });

  test("after a pause in which nothing was seen, the watch of heartbeats starts again", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeTill(db, { incarnation: "inc_away" });
    await away.hold(asking("r1"));
    await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, 1)`;
    const till = makeTill(db, { incarnation: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, till, { clock: { ...systemClock, monotonicMs: () => monotonicMs } });
    // The database was unavailable for ten minutes: no process could write its heartbeat.
    monotonicMs = 600_000;
    await recovery.reap();
    expect((await readWallet(db, "u1")).heldNano).toBe(100n);
    await recovery.stop();
    await till.stop();
    await away.stop();
  });

  test("a process with the number of another one, or of this one, is told apart by its start", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await addFunds(db, "u2", 1_000n);
    const self = describeProcess("inc_new", Date.now());
    const { host, pid, startTicks } = self;
    // From the future, by a clock that was set back since.
    const later = Date.now() + 3_600_000;
    const former = makeTill(db, { incarnation: "inc_former" });
    await former.hold(asking("r1"));
    await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms, start_ticks)
      VALUES ('inc_former', ${host}, ${pid}, ${later}, ${later}, ${(startTicks ?? 0) - 1})`;
    const running = makeTill(db, { incarnation: "inc_running" });
    await running.hold(asking("r2", { userId: "u2" }));
    await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms, start_ticks)
      VALUES ('inc_running', ${host}, ${pid}, 1, 1, ${startTicks})`;
    const till = makeTill(db, { incarnation: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, till, { clock: { ...systemClock, monotonicMs: () => monotonicMs } });
    expect((await readWallet(db, "u1")).heldNano).toBe(0n);
    for (let looks = 0; looks < 10; looks++) {
      monotonicMs += 15_000;
      await recovery.reap();
    }
    // Its heartbeat is old, but the process still runs.
    expect((await readWallet(db, "u2")).heldNano).toBe(100n);
    await recovery.stop();
    for (const one of [till, former, running]) await one.stop();
  });

  test("whichever process had the data folder before is dead, wherever it ran", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const former = makeTill(db, { incarnation: "inc_former" });
    await former.hold(asking("r1"));
    await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms, folder_id)
      VALUES ('inc_former', 'another container', 1, 1, 1, 'folder')`;
    const till = makeTill(db, { incarnation: "inc_new" });
    const self = describeProcess("inc_new", Date.now(), "folder");
    const recovery = await recover(db, till, { self });
    expect((await readWallet(db, "u1")).heldNano).toBe(0n);
    await recovery.stop();
    await till.stop();
    await former.stop();
  });

  test("what a dead process was asked under a client's key is over once it is found dead", async () => {
    const db = await open();
    const claim = { scope: "key_1", token: "t", fingerprint: "f", requestId: "r1" };
    const keyring = openKeyring({ file: "/nowhere", fromEnv: randomBytes(32).toString("base64") });
    const claimsOf = (incarnation: string) =>
      openIdempotency({
        db,
        clock: systemClock,
        keyring,
        incarnation,
        keptMs: 60_000,
        answerBytesMax: 1_024,
      });
    await db.sql`INSERT INTO incarnation (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, ${Date.now()})`;
    expect(await claimsOf("inc_away").begin(claim)).toEqual({ kind: "new" });
    const till = makeTill(db, { incarnation: "inc_new" });
    const claims = claimsOf("inc_new");
    let monotonicMs = 0;
    const recovery = await recover(db, till, {
      buried: claims.recover,
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    expect(await claims.begin(claim)).toEqual({ kind: "running", requestId: "r1" });
    for (; monotonicMs <= 60_000; monotonicMs += 15_000) await recovery.reap();
    expect(await claims.begin(claim)).toEqual({ kind: "done", requestId: "r1", stored: null });
    await recovery.stop();
    await till.stop();
  });

  test("a damaged journal is read up to the damage, and the log, the counts and the audit tell of it", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { incarnation: "inc_new" });
    const journal = openJournal(till.dir, "inc_dead", 100_000);
    for (const id of ["r1", "r2", "r3"]) journal.recorded(usageRow({ requestId: id }));
    await journal.close(false);
    const name = "journal-inc_dead.1.jsonl";
    const bytes = readFileSync(join(till.dir, name));
    bytes.write("x", bytes.indexOf('"r2"') + 1);
    writeFileSync(join(till.dir, name), bytes);
    const events: string[] = [];
    const note = (event: string) => void events.push(event);
    const recovery = await recover(db, till, { log: { info: note, warn: note, error: note } });
    expect(await findUsage(db, "r1")).not.toBeNull();
    expect(await findUsage(db, "r3")).toBeNull();
    expect(events).toContain("journal_damaged");
    expect(till.faults.list()).toContainEqual({
      fault: "journal_damaged",
      count: 1,
      latestAtMs: expect.any(Number),
    });
    const report = await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 });
    expect(report.notes).toEqual([expect.stringContaining(`${name} is damaged`)]);
    expect(report.findings).toEqual([]);
    await recovery.reap();
    expect(till.faults.list()).toContainEqual(expect.objectContaining({ count: 1 }));
    expect(readdirSync(till.dir).filter((one) => one.startsWith("journal-"))).toEqual([`${name}.damaged`]);
    await recovery.stop();
    await till.stop();
  });

  test("two that find the same dead book it once", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    await addFunds(one, "u1", 100_000n);
    await dieWith(one, async (till) => {
      const ids = Array.from({ length: 150 }, (_, index) => `r${index}`);
      await Promise.all(ids.map((id) => till.hold(asking(id))));
      for (const id of ids) till.dispatched(id, "acc_1", "gpt");
    });
    const tills = [makeTill(one, { incarnation: "inc_1" }), makeTill(two, { incarnation: "inc_2" })];
    const [a, b] = await Promise.all(tills.map((till, index) => recover(index === 0 ? one : two, till)));
    expect(await readWallet(one, "u1")).toEqual({ balanceNano: 100_000n - 150n * 20n, heldNano: 0n });
    expect(await findings(one)).toEqual([]);
    await a?.stop();
    await b?.stop();
    for (const till of tills) await till.stop();
    await one.close();
    await two.close();
  });

  test("settlements that a dead process kept on disk come before what its holds tell", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { incarnation: "inc_new" });
    await dieWith(
      db,
      async (dying) => {
        await dying.hold(asking("r1"));
        dying.dispatched("r1", "acc_1", "gpt");
      },
      till.dir,
    );
    const spool = openSettlementSpool(till.dir, "inc_dead");
    await spool.add([settling("r1", 77n)]);
    await spool.close();
    const recovery = await recover(db, till);
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 77n, flags: [] });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 923n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await till.stop();
  });

  test("a hold of its own that the till knows nothing of is given back, also of a request that has its row", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const forgetful = makeTill(db, { incarnation: "inc_new" });
    await forgetful.hold(asking("r1"));
    await forgetful.hold(asking("r2"));
    await insertUsage(db, [usageRow({ requestId: "r2", outcome: "refused", costNano: 0n, chargedNano: 0n })]);
    const till = makeTill(db, { incarnation: "inc_new" });
    await Bun.sleep(2);
    const recovery = await recover(db, till, { limits: { ...limits.recovery, orphanMs: 0 } });
    expect((await readWallet(db, "u1")).heldNano).toBeGreaterThan(0n);
    await recovery.reap();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findUsage(db, "r2")).toMatchObject({ outcome: "refused", flags: [] });
    expect(till.logged.filter(({ event }) => event.startsWith("settlement_"))).toEqual([]);
    await recovery.stop();
    await forgetful.stop();
    await till.stop();
  });

  test("a hold that was made after its request had been refused is given back without a complaint", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { incarnation: "inc_new" });
    const forgetful = makeTill(db, { incarnation: "inc_new" });
    await forgetful.hold(asking("r1"));
    forgetful.push({ ...settling("r1", 0n).row, outcome: "refused", payer: null });
    await forgetful.flush();
    await Bun.sleep(2);
    const recovery = await recover(db, till, { limits: { ...limits.recovery, orphanMs: 0 } });
    expect((await readWallet(db, "u1")).heldNano).toBeGreaterThan(0n);
    await recovery.reap();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findUsage(db, "r1")).toMatchObject({ outcome: "refused", chargedNano: 0n });
    expect(till.logged).toEqual([]);
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await forgetful.stop();
    await till.stop();
  });
});
