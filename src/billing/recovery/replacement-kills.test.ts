/** A process is killed around the replacement of a hold: recovery charges by the hold that stands, once. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { systemClock } from "../../base/clock.ts";
import { makeTariff } from "../../money/tariff.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findHolds } from "../../store/money/holds.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import type { HoldRequest } from "../engine/billing-types.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  LIMITS,
  makeBilling,
  recover,
  TARIFF,
} from "../engine/direct-billing.test-support.ts";
import type { BillingLimits } from "../engine/direct-billing.ts";
import { MortalDb } from "../engine/mortal-db.test-support.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";

setDefaultTimeout(60_000);

const NOON = Date.parse("2027-03-10T12:00:00Z");
const clock = { ...systemClock, nowMs: () => NOON };
const NEXT_TARIFF = makeTariff({ input: "0.002", output: "0.002" });
const FUNDS_NANO = 10_000n;
/** 20 tokens of input and 5 of output at 1 nano-dollar; 33 and 7 at 2. */
const OLD_CHARGE_NANO = 25n;
const NEXT_CHARGE_NANO = 80n;

const WRITE_BEHIND = { "direct billing": undefined, "write-behind billing": {} } as const;

let lives = 0;
let users = 0;

async function createUser(db: Db): Promise<string> {
  const userId = `u${++users}`;
  await putUser(db, userRecord(userId));
  await addFunds(db, userId, FUNDS_NANO);
  const windows = [{ per: "day", usd: "0.00001", counted: "calendar" } as const];
  await putPlan(db, { id: "plan", name: "plan", timeZone: "UTC", windows, createdAtMs: 0 });
  const term = { startsAtMs: 0, endsAtMs: null, renews: "none", status: "active", createdAtMs: 0 } as const;
  await putSubscription(db, { id: `sub of ${userId}`, userId, planId: "plan", priority: 1, ...term });
  return userId;
}

interface Life {
  readonly mortal: MortalDb;
  readonly engine: BillingUnderTest;
  /** Kills the process. Another node, without its journal, recovers what it finds in the database. */
  takeOver(): Promise<void>;
  /** Kills the process, and starts the next one on its folder. */
  restart(): Promise<void>;
}

function start(db: Db, lane: keyof typeof WRITE_BEHIND): Life {
  const mortal = new MortalDb(db);
  const writeBehind = WRITE_BEHIND[lane];
  const create = (own: Db, change: { limits: BillingLimits; dir?: string }) =>
    makeBilling(own, {
      clock,
      ...(writeBehind === undefined ? {} : { writeBehind }),
      ...change,
      processId: `inc_kill_${++lives}`,
    });
  const limits = { ...LIMITS, progressMs: 1, checkpointMs: 1 };
  const engine = create(mortal.db, { limits });
  async function recoverWith(folder: { dir?: string }): Promise<void> {
    mortal.dieAfter(0);
    // A process that stops would wait for its database.
    limits.transactionMs = 0;
    await engine.stop();
    const heir = create(db, { limits: LIMITS, ...folder });
    const recovery = await recover(db, heir, { clock });
    await recovery.stop();
    await recovery.unregister();
    await heir.stop();
  }
  return {
    mortal,
    engine,
    takeOver: () => recoverWith({}),
    restart: () => recoverWith({ dir: engine.dir }),
  };
}

type Payer = "balance" | "subscription";

const payBy = (charge: Payer, userId: string): Partial<HoldRequest> => ({ charge, userId, wantedNano: 500n });

const next = (id: string, change: Partial<HoldRequest>): HoldRequest =>
  buildHoldRequest(id, {
    tariff: NEXT_TARIFF,
    groupId: "g2",
    publicModel: "slow",
    inputTokens: 33,
    ...change,
  });

/** Until progress is in the journal or in the database. */
async function progressWritten(engine: BillingUnderTest): Promise<void> {
  await Bun.sleep(10);
  for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
  if (engine.constructor.name === "DirectBilling") await engine.flush();
}

/** What a process that dies leaves of the request: its journal, or its hold in the database. */
async function readWrittenTokens(db: Db, { dir }: BillingUnderTest, id: string): Promise<number> {
  const hold = (await findHolds(db, [id])).get(id);
  const journals = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  const lines = journals.flatMap(({ parentPath, name }) =>
    readFileSync(join(parentPath, name), "utf8").split("\n"),
  );
  const progress = lines.filter((line) => line.includes('"event":"progress"') && line.includes(`"${id}"`));
  const tokens = progress.map((line) => Number(/"outputTokens":(\d+)/.exec(line)?.[1]));
  return Math.max(hold?.outputTokens ?? 0, ...tokens);
}

async function holdAndSend(
  db: Db,
  engine: BillingUnderTest,
  id: string,
  change: Partial<HoldRequest>,
): Promise<void> {
  expect((await engine.hold(buildHoldRequest(id, change))).kind).toBe("held");
  engine.recordDispatch(id, "acc_1", "upstream-1");
  engine.checkpoint(id, 5);
  if (engine.constructor.name === "DirectBilling") await progressWritten(engine);
  else await eventually(() => readWrittenTokens(db, engine, id), { equals: 5 });
}

/** The request is charged once by one of the two holds, and nothing else has changed. */
async function checkCharge(
  db: Db,
  id: string,
  user: string,
): Promise<{ tariffId: string; chargedNano: bigint }> {
  expect((await findHolds(db, [id])).size).toBe(0);
  const row = await findUsage(db, id);
  if (row === null) throw new Error("The request has no usage row.");
  const { payer, chargedNano, tariffId, groupId, publicModel } = row;
  const isNext = tariffId === NEXT_TARIFF.id;
  expect({ groupId, publicModel }).toEqual(
    isNext ? { groupId: "g2", publicModel: "slow" } : { groupId: "g1", publicModel: "fast" },
  );
  const [{ used = "" } = {}] = await db.sql`
    SELECT CAST(COALESCE(SUM(used_nano + held_nano), 0) AS TEXT) AS used FROM subscription_window
    WHERE subscription_id = ${`sub of ${user}`}`;
  expect(used).toBe(String(payer === "subscription" ? chargedNano : 0n));
  expect(await readWallet(db, user)).toEqual({
    balanceNano: FUNDS_NANO - (payer === "balance" ? chargedNano : 0n),
    heldNano: 0n,
  });
  return { tariffId: tariffId ?? "", chargedNano };
}

/** The ledger agrees with the requests of all processes of a test. */
async function checkLedger(db: Db): Promise<void> {
  const { findings } = await reconcileLedger(db, { nowMs: NOON, holdAgeMaxMs: 3_600_000, findingsMax: 9 });
  expect(findings).toEqual([]);
}

const OLD_SENT = { tariffId: TARIFF.id, chargedNano: OLD_CHARGE_NANO };
const NEXT_UNSENT = { tariffId: NEXT_TARIFF.id, chargedNano: 0n };

eachEngine(({ open }) => {
  for (const lane of ["direct billing", "write-behind billing"] as const)
    for (const [before, after] of [
      ["balance", "balance"],
      ["balance", "subscription"],
      ["subscription", "balance"],
    ] as const)
      describe(`${lane}, ${before} → ${after}`, () => {
        // Recovery by two nodes takes longer, so fewer statements are tried.
        for (const [isTakenOver, everyPoint] of [
          [false, 1],
          [true, 4],
        ] as const)
          test(`killed at any statement of the replacement${isTakenOver ? " and taken over" : ""}, the hold that stands is charged`, async () => {
            const db = await open();
            const outcomes: unknown[] = [];
            for (let points = 0, isDone = false; !isDone; points += everyPoint) {
              const user = await createUser(db);
              const { mortal, engine, takeOver, restart } = start(db, lane);
              const id = `${user}-request`;
              await holdAndSend(db, engine, id, payBy(before, user));
              mortal.dieAfter(points);
              const replaced = engine.replaceHold(next(id, payBy(after, user))).then(() => {
                isDone = true;
              });
              await Promise.race([replaced, mortal.died]);
              void replaced.catch(() => {});
              if (isTakenOver) await takeOver();
              await restart();
              outcomes.push(await checkCharge(db, id, user));
            }
            // The order of the statements decides which hold stands: the old one up to a point, and then the new one.
            const switched = outcomes.findIndex((one) => Bun.deepEquals(one, NEXT_UNSENT));
            expect(switched).toBeGreaterThan(0);
            expect(outcomes).toEqual(outcomes.map((_, index) => (index < switched ? OLD_SENT : NEXT_UNSENT)));
            await checkLedger(db);
          }, 120_000);

        test("killed after the step was sent, the new hold is charged", async () => {
          const db = await open();
          const user = await createUser(db);
          const { engine, restart } = start(db, lane);
          const id = `${user}-request`;
          await holdAndSend(db, engine, id, payBy(before, user));
          expect((await engine.replaceHold(next(id, payBy(after, user)))).kind).toBe("held");
          engine.recordDispatch(id, "acc_2", "upstream-2");
          engine.checkpoint(id, 7);
          await engine.flush();
          await restart();
          expect(await checkCharge(db, id, user)).toEqual({
            tariffId: NEXT_TARIFF.id,
            chargedNano: NEXT_CHARGE_NANO,
          });
          await checkLedger(db);
        });

        test("killed after a rejected replacement, nothing that was sent is charged", async () => {
          const db = await open();
          const user = await createUser(db);
          const { engine, restart } = start(db, lane);
          const id = `${user}-request`;
          await holdAndSend(db, engine, id, payBy(before, user));
          const much = { ...payBy(after, user), wantedNano: 20_000n, leastNano: 20_000n };
          expect((await engine.replaceHold(next(id, much))).kind).toBe("short");
          await progressWritten(engine);
          await engine.flush();
          await restart();
          // The old hold stands, and no account is processing the request.
          expect(await checkCharge(db, id, user)).toEqual({ tariffId: TARIFF.id, chargedNano: 0n });
          await checkLedger(db);
        });

        test("killed at any statement of a release, the hold is charged or gone", async () => {
          const db = await open();
          const outcomes: unknown[] = [];
          for (let points = 0, isDone = false; !isDone; points++) {
            const user = await createUser(db);
            const { mortal, engine, restart } = start(db, lane);
            const id = `${user}-request`;
            await holdAndSend(db, engine, id, payBy(before, user));
            mortal.dieAfter(points);
            const released = engine.releaseHold(id).then(() => {
              isDone = true;
            });
            await Promise.race([released, mortal.died]);
            void released.catch(() => {});
            await restart();
            if ((await findUsage(db, id)) !== null) outcomes.push(await checkCharge(db, id, user));
            else {
              outcomes.push("gone");
              expect(await readWallet(db, user)).toEqual({ balanceNano: FUNDS_NANO, heldNano: 0n });
              expect((await findHolds(db, [id])).size).toBe(0);
            }
          }
          const ended = outcomes.indexOf("gone");
          expect(ended).toBeGreaterThan(1);
          expect(outcomes).toEqual(outcomes.map((_, index) => (index < ended ? OLD_SENT : "gone")));
          await checkLedger(db);
        }, 120_000);
      });
});
