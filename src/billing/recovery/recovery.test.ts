import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock, uuidV7 } from "../../base/clock.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { BillingFaults } from "../../observe/billing-faults.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { openKeyring } from "../../secrets/keyring.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { putUser } from "../../store/identity/users.ts";
import { listProcesses, type ProcessRecord } from "../../store/money/processes.ts";
import { listSetAsideHolds } from "../../store/money/set-aside-holds.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { insertUsage, usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  recover,
} from "../engine/direct-billing.test-support.ts";
import { SettlementSpool } from "../engine/settlement-spool.ts";
import { Idempotency } from "../idempotency/idempotency.ts";
import { Journal } from "../journal/journal.ts";
import { LineBuffer } from "../journal/line-buffer.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { chargeSetAside, releaseSetAside } from "../operations/resolve-hold.ts";
import { describeProcess } from "./process-watch.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
const eager = { ...limits.billingEngine, progressMs: 1, checkpointMs: 1 };

/** Another process of this host that no longer runs. */
const gone = (id: string): ProcessRecord => ({ ...describeProcess(id, Date.now()), pid: 4_000_000 });

/** The process wrote its heartbeat, made these holds and died. */
async function dieWith(
  db: Db,
  work: (billingEngine: BillingUnderTest) => Promise<void>,
  dir?: string,
): Promise<void> {
  const billingEngine = makeBilling(db, {
    processId: "inc_dead",
    limits: eager,
    ...(dir === undefined ? {} : { dir }),
  });
  const { id, host, pid, startedAtMs, beatAtMs } = gone("inc_dead");
  await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
    VALUES (${id}, ${host}, ${pid}, ${startedAtMs}, ${beatAtMs})`;
  await work(billingEngine);
  await billingEngine.flush();
  await billingEngine.stop();
}

eachEngine(({ open, emptyUrl }) => {
  test("unsent requests are not charged, and sent requests are charged by their checkpoint", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await dieWith(db, async (billingEngine) => {
      await Promise.all(
        ["admitted", "sent", "streaming", "much"].map((id) => billingEngine.hold(buildHoldRequest(id))),
      );
      for (const id of ["sent", "streaming", "much"]) billingEngine.recordDispatch(id, "acc_1", "gpt");
      billingEngine.checkpoint("streaming", 30);
      billingEngine.checkpoint("much", 1_000);
    });
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const recovery = await recover(db, billingEngine);
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
    await recovery.unregister();
    await billingEngine.stop();
    expect(await listProcesses(db)).toEqual([]);
  });

  /** A process died with two sent requests. One has a tariff that this version cannot read. */
  async function dieWithSpoilt(db: Db): Promise<void> {
    await addFunds(db, "u1", 1_000n);
    await dieWith(db, async (billingEngine) => {
      await Promise.all(["good", "spoilt"].map((id) => billingEngine.hold(buildHoldRequest(id))));
      for (const id of ["good", "spoilt"]) billingEngine.recordDispatch(id, "acc_1", "gpt");
    });
    await db.sql`INSERT INTO tariff (id, terms) VALUES ('bad', '{}')`;
    await db.sql`UPDATE hold SET tariff_id = 'bad' WHERE request_id = 'spoilt'`;
  }

  test("a hold that cannot be settled is set aside after three attempts, and its process is removed", async () => {
    const db = await open();
    await dieWithSpoilt(db);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const faults = new BillingFaults(Date.now);
    const recovery = await recover(db, billingEngine, { faults });
    const countFaults = () => faults.list().find(({ fault }) => fault === "hold_set_aside")?.count;
    const listIds = async () => (await listProcesses(db)).map(({ id }) => id);
    // The other hold is settled at once.
    expect(await findUsage(db, "good")).toMatchObject({ chargedNano: 20n });
    await recovery.recoverDead();
    expect([countFaults(), await listIds()]).toEqual([0, ["inc_dead", "inc_new"]]);
    await recovery.recoverDead();
    expect([countFaults(), await listIds()]).toEqual([1, ["inc_new"]]);
    const [hold] = await listSetAsideHolds(db, 10);
    expect(hold).toMatchObject({ requestId: "spoilt", userId: "u1", amountNano: 100n });
    expect(await findings(db)).toMatchObject([{ check: "set_aside", subject: "spoilt", is: "100" }]);
    // Later passes and other processes do not touch it.
    await recovery.recoverDead();
    expect(countFaults()).toBe(1);
    await recovery.stop();
    await billingEngine.stop();
  });

  test("an operator releases or charges what was set aside, and the audit is clean again", async () => {
    const context = { clock: systemClock, newId: uuidV7 };
    for (const decision of ["release", "charge"] as const) {
      const db = await open();
      await putUser(db, userRecord("u1"));
      await dieWithSpoilt(db);
      const billingEngine = makeBilling(db, { processId: "inc_new" });
      const recovery = await recover(db, billingEngine);
      for (let pass = 0; pass < 2; pass += 1) await recovery.recoverDead();
      await recovery.stop();
      const order = { requestId: "spoilt", amountNano: 30n, actor: "cli:ada", reason: "read in the log" };
      if (decision === "release") await releaseSetAside(db, "spoilt");
      else await chargeSetAside({ ...context, db }, order);
      const charged = decision === "release" ? 0n : 30n;
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 980n - charged, heldNano: 0n });
      expect(await listSetAsideHolds(db, 10)).toEqual([]);
      expect((await findings(db)).filter(({ check }) => check !== "entry_log")).toEqual([]);
      await expect(releaseSetAside(db, "spoilt")).rejects.toThrow("no hold that was set aside");
      await billingEngine.stop();
    }
  });

  test("a hold whose row cannot be read does not keep the others of its process from being settled", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await dieWith(db, async (billingEngine) => {
      await Promise.all(["good", "odd"].map((id) => billingEngine.hold(buildHoldRequest(id))));
    });
    await db.sql`UPDATE hold SET interface = 'of a later version' WHERE request_id = 'odd'`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const recovery = await recover(db, billingEngine);
    expect(await findUsage(db, "good")).not.toBeNull();
    for (let pass = 0; pass < 2; pass += 1) await recovery.recoverDead();
    expect((await listSetAsideHolds(db, 10)).map(({ requestId }) => requestId)).toEqual(["odd"]);
    expect((await listProcesses(db)).map(({ id }) => id)).toEqual(["inc_new"]);
    await recovery.stop();
    await billingEngine.stop();
  });

  test("the holds of a living process are not touched", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const alive = makeBilling(db, { processId: "inc_alive" });
    await alive.hold(buildHoldRequest("r1"));
    const first = await recover(db, alive);
    const other = makeBilling(db, { processId: "inc_other" });
    const second = await recover(db, other, {
      self: { ...describeProcess("inc_other", Date.now()), pid: 4_000_000 },
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await second.stop();
    await first.stop();
    await alive.stop();
    await other.stop();
  });

  test("a process on another host is dead once its heartbeat stays unchanged for long", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeBilling(db, { processId: "inc_away" });
    await away.hold(buildHoldRequest("r1"));
    const beatAt = (atMs: number) =>
      db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
        VALUES ('inc_away', 'elsewhere', 1, 1, ${atMs})
        ON CONFLICT (id) DO UPDATE SET beat_at_ms = excluded.beat_at_ms`;
    // Its heartbeat claims to be an hour old, which proves nothing.
    await beatAt(Date.now() - 3_600_000);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, billingEngine, {
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    const look = async (afterMs: number) => {
      monotonicMs += afterMs;
      await recovery.recoverDead();
      return (await readWallet(db, "u1")).heldNano;
    };
    for (let looks = 0; looks < 3; looks++) expect(await look(15_000)).toBe(100n);
    // Its heartbeat changes, by a clock that is far behind.
    await beatAt(5);
    for (let looks = 0; looks < 4; looks++) expect(await look(15_000)).toBe(100n);
    expect(await look(15_000)).toBe(0n);
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 0n, flags: ["recovered"] });
    // The process was only slow: its settlement counts.
    await away.settle(buildTestSettlement("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, flags: [] });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await billingEngine.stop();
    await away.stop();
  });

  test("a database that is slow for this process was slow for the others: the watch starts again", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeBilling(db, { processId: "inc_away" });
    await away.hold(buildHoldRequest("r1"));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, 1)`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    let slownessMs = 0;
    const recovery = await recover(db, billingEngine, {
      clock: { ...systemClock, monotonicMs: () => (monotonicMs += slownessMs) },
    });
    const look = async () => {
      monotonicMs += 15_000;
      await recovery.recoverDead();
      return (await readWallet(db, "u1")).heldNano;
    };
    for (let looks = 0; looks < 3; looks++) expect(await look()).toBe(100n);
    slownessMs = 6_000;
    expect(await look()).toBe(100n);
    slownessMs = 0;
    for (let looks = 0; looks < 3; looks++) expect(await look()).toBe(100n);
    expect(await look()).toBe(0n);
    await recovery.stop();
    await billingEngine.stop();
    await away.stop();
  });

  test("after a pause without observations, the watch of heartbeats starts again", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeBilling(db, { processId: "inc_away" });
    await away.hold(buildHoldRequest("r1"));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, 1)`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, billingEngine, {
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    // The database was unavailable for ten minutes: no process could write its heartbeat.
    monotonicMs = 600_000;
    await recovery.recoverDead();
    expect((await readWallet(db, "u1")).heldNano).toBe(100n);
    await recovery.stop();
    await billingEngine.stop();
    await away.stop();
  });

  test("after an outage of the database, a process gets the whole time again to write its heartbeat", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const away = makeBilling(db, { processId: "inc_away" });
    await away.hold(buildHoldRequest("r1"));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, 1)`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    let isAway = false;
    const sql = Object.assign(
      (...statement: Parameters<Db["sql"]>) =>
        isAway ? Promise.reject(new Error("the server is away")) : db.sql(...statement),
      { text: db.sql.text, each: db.sql.each, script: db.sql.script },
    );
    const recovery = await recover({ ...db, sql }, billingEngine, {
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    const look = async (afterMs: number) => {
      monotonicMs += afterMs;
      await recovery.recoverDead().catch(() => {});
      return (await readWallet(db, "u1")).heldNano;
    };
    for (let looks = 0; looks < 3; looks++) expect(await look(15_000)).toBe(100n);
    isAway = true;
    expect(await look(1_000)).toBe(100n);
    isAway = false;
    for (let looks = 0; looks < 5; looks++) expect(await look(14_000)).toBe(100n);
    expect(await look(15_000)).toBe(0n);
    await recovery.stop();
    await billingEngine.stop();
    await away.stop();
  });

  test("a reused process id is recognized by the start time", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    await addFunds(db, "u2", 1_000n);
    const self = describeProcess("inc_new", Date.now());
    const { host, pid, startTicks } = self;
    // From the future, by a clock that was set back since.
    const later = Date.now() + 3_600_000;
    const former = makeBilling(db, { processId: "inc_former" });
    await former.hold(buildHoldRequest("r1"));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, start_ticks)
      VALUES ('inc_former', ${host}, ${pid}, ${later}, ${later}, ${(startTicks ?? 0) - 1})`;
    const running = makeBilling(db, { processId: "inc_running" });
    await running.hold(buildHoldRequest("r2", { userId: "u2" }));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, start_ticks)
      VALUES ('inc_running', ${host}, ${pid}, 1, 1, ${startTicks})`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, billingEngine, {
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    expect((await readWallet(db, "u1")).heldNano).toBe(0n);
    for (let looks = 0; looks < 10; looks++) {
      monotonicMs += 15_000;
      await recovery.recoverDead();
    }
    // Its heartbeat is old, but the process still runs.
    expect((await readWallet(db, "u2")).heldNano).toBe(100n);
    await recovery.stop();
    for (const one of [billingEngine, former, running]) await one.stop();
  });

  test("the previous process of the data folder counts as dead, wherever it ran", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const former = makeBilling(db, { processId: "inc_former" });
    await former.hold(buildHoldRequest("r1"));
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, folder_id)
      VALUES ('inc_former', 'another container', 1, 1, 1, 'folder')`;
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const self = describeProcess("inc_new", Date.now(), "folder");
    const recovery = await recover(db, billingEngine, { self });
    expect((await readWallet(db, "u1")).heldNano).toBe(0n);
    await recovery.stop();
    await billingEngine.stop();
    await former.stop();
  });

  test("a process with the same disk on another machine is dead only if it sends no heartbeats", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const copied = makeBilling(db, { processId: "inc_copied" });
    await copied.hold(buildHoldRequest("r1"));
    const beatAt = (atMs: number) =>
      db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, folder_id)
        VALUES ('inc_copied', 'elsewhere', 1, 1, ${atMs}, 'folder:1@one')
        ON CONFLICT (id) DO UPDATE SET beat_at_ms = excluded.beat_at_ms`;
    await beatAt(1);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    let monotonicMs = 0;
    const recovery = await recover(db, billingEngine, {
      self: describeProcess("inc_new", Date.now(), "folder:1@two"),
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    const look = async () => {
      monotonicMs += 15_000;
      await recovery.recoverDead();
      return (await readWallet(db, "u1")).heldNano;
    };
    for (let beat = 2; beat < 6; beat += 1) {
      await beatAt(beat);
      expect(await look()).toBe(100n);
    }
    expect(await look()).toBe(0n);
    await recovery.stop();
    await billingEngine.stop();
    await copied.stop();
  });

  test("idempotency keys in flight in a silent process are closed", async () => {
    const db = await open();
    const claim = { scope: "key_1", token: "t", fingerprint: "f", requestId: "r1" };
    const keyring = openKeyring({ file: "/nowhere", fromEnv: randomBytes(32).toString("base64") });
    const listClaims = (processId: string) =>
      new Idempotency({
        db,
        clock: systemClock,
        keyring,
        processId,
        keptMs: 60_000,
        responseBytesMax: 1_024,
      });
    await db.sql`INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms)
      VALUES ('inc_away', 'elsewhere', 1, 1, ${Date.now()})`;
    const away = listClaims("inc_away");
    expect(await away.begin(claim)).toEqual({ kind: "new" });
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const claims = listClaims("inc_new");
    let monotonicMs = 0;
    const recovery = await recover(db, billingEngine, {
      onProcessesLost: (silentIds) => claims.endOrphanedClaims(silentIds),
      clock: { ...systemClock, monotonicMs: () => monotonicMs },
    });
    expect(await claims.begin(claim)).toEqual({ kind: "running", requestId: "r1" });
    // It is silent after 30 s. Its record is removed later.
    for (; monotonicMs <= 30_000; monotonicMs += 15_000) await recovery.recoverDead();
    expect(await claims.begin(claim)).toEqual({ kind: "done", requestId: "r1", stored: null });
    // It was only slow: its response is stored.
    const response = { status: 200, contentType: "application/json", body: "{}" };
    await away.finish(claim, response);
    expect(await claims.begin(claim)).toEqual({ kind: "done", requestId: "r1", stored: response });
    await recovery.stop();
    await billingEngine.stop();
  });

  test("a damaged journal is read up to the damage, and the log, faults and the audit report it", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const journal = new Journal({ dir: billingEngine.dir, processId: "inc_dead", segmentBytes: 100_000 });
    for (const id of ["r1", "r2", "r3"]) journal.appendUnpaidRow(usageRow({ requestId: id }));
    await journal.close();
    const name = "journal-inc_dead.1.jsonl";
    const bytes = readFileSync(join(billingEngine.dir, name));
    bytes.write("x", bytes.indexOf('"r2"') + 1);
    writeFileSync(join(billingEngine.dir, name), bytes);
    const events: string[] = [];
    const note = (event: string) => void events.push(event);
    const recovery = await recover(db, billingEngine, { log: { info: note, warn: note, error: note } });
    expect(await findUsage(db, "r1")).not.toBeNull();
    expect(await findUsage(db, "r3")).toBeNull();
    expect(events).toContain("journal_damaged");
    expect(billingEngine.faults.list()).toContainEqual({
      fault: "journal_damaged",
      count: 1,
      latestAtMs: expect.any(Number),
    });
    const report = await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 });
    expect(report.notes).toEqual([expect.stringContaining(`${name} is damaged`)]);
    expect(report.findings).toEqual([]);
    await recovery.recoverDead();
    expect(billingEngine.faults.list()).toContainEqual(expect.objectContaining({ count: 1 }));
    expect(readdirSync(billingEngine.dir).filter((one) => one.startsWith("journal-"))).toEqual([
      `${name}.damaged`,
    ]);
    await recovery.stop();
    await billingEngine.stop();
  });

  test("a journal of a version with another format is reported and kept", async () => {
    const db = await open();
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const name = "journal-inc_dead.1.jsonl";
    const line = new LineBuffer();
    line.setLine('["o",2]');
    writeFileSync(join(billingEngine.dir, name), line.bytes.subarray(0, line.length));
    const errors: [string, unknown][] = [];
    const log = {
      info() {},
      warn() {},
      error: (...entry: [string, unknown?]) => void errors.push([entry[0], entry[1]]),
    };
    const recovery = await recover(db, billingEngine, { log });
    expect(errors).toEqual([["journal_replayed", expect.objectContaining({ unreadable: 1 })]]);
    expect(readdirSync(billingEngine.dir)).toContain(name);
    await recovery.stop();
    await billingEngine.stop();
  });

  test("two processes that recover the same dead process book its holds once", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    await addFunds(one, "u1", 100_000n);
    await dieWith(one, async (billingEngine) => {
      const ids = Array.from({ length: 150 }, (_, index) => `r${index}`);
      await Promise.all(ids.map((id) => billingEngine.hold(buildHoldRequest(id))));
      for (const id of ids) billingEngine.recordDispatch(id, "acc_1", "gpt");
    });
    const tills = [makeBilling(one, { processId: "inc_1" }), makeBilling(two, { processId: "inc_2" })];
    const [a, b] = await Promise.all(
      tills.map((billingEngine, index) => recover(index === 0 ? one : two, billingEngine)),
    );
    expect(await readWallet(one, "u1")).toEqual({ balanceNano: 100_000n - 150n * 20n, heldNano: 0n });
    expect(await findings(one)).toEqual([]);
    await a?.stop();
    await b?.stop();
    for (const billingEngine of tills) await billingEngine.stop();
    await one.close();
    await two.close();
  });

  test("settlement files of a dead process take precedence over its holds", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    await dieWith(
      db,
      async (dying) => {
        await dying.hold(buildHoldRequest("r1"));
        dying.recordDispatch("r1", "acc_1", "gpt");
      },
      billingEngine.dir,
    );
    const spool = new SettlementSpool(billingEngine.dir, "inc_dead");
    await spool.add([buildTestSettlement("r1", 77n)]);
    await spool.close();
    const recovery = await recover(db, billingEngine);
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 77n, flags: [] });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 923n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await billingEngine.stop();
  });

  test("a hold of this process that the billing engine does not know is released, even if its request has a row", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const forgetful = makeBilling(db, { processId: "inc_new" });
    await forgetful.hold(buildHoldRequest("r1"));
    await forgetful.hold(buildHoldRequest("r2"));
    await insertUsage(db, [usageRow({ requestId: "r2", outcome: "refused", costNano: 0n, chargedNano: 0n })]);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    // The hold is older than `orphanMs`.
    await Bun.sleep(2);
    const recovery = await recover(db, billingEngine, { limits: { ...limits.recovery, orphanMs: 0 } });
    expect((await readWallet(db, "u1")).heldNano).toBeGreaterThan(0n);
    await recovery.recoverDead();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findUsage(db, "r2")).toMatchObject({ outcome: "refused", flags: [] });
    expect(billingEngine.logged.filter(({ event }) => event.startsWith("settlement_"))).toEqual([]);
    await recovery.stop();
    await forgetful.stop();
    await billingEngine.stop();
  });

  test("a hold made after its request was rejected is released without a warning", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db, { processId: "inc_new" });
    const forgetful = makeBilling(db, { processId: "inc_new" });
    await forgetful.hold(buildHoldRequest("r1"));
    forgetful.push({ ...buildTestSettlement("r1", 0n).row, outcome: "refused", payer: null });
    await forgetful.flush();
    // The hold is older than `orphanMs`.
    await Bun.sleep(2);
    const recovery = await recover(db, billingEngine, { limits: { ...limits.recovery, orphanMs: 0 } });
    expect((await readWallet(db, "u1")).heldNano).toBeGreaterThan(0n);
    await recovery.recoverDead();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    expect(await findUsage(db, "r1")).toMatchObject({ outcome: "refused", chargedNano: 0n });
    expect(billingEngine.logged).toEqual([]);
    expect(await findings(db)).toEqual([]);
    await recovery.stop();
    await forgetful.stop();
    await billingEngine.stop();
  });
});
