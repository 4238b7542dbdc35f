/** Compares the billing engine with an in-memory model, for random operations in random order. */

import { expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  makeKillableDb,
  recover,
} from "./direct-billing.test-support.ts";

type Step =
  | { kind: "fund"; user: number; nano: number }
  | { kind: "hold"; user: number; wanted: number; least: number; firm: number }
  | { kind: "settle"; which: number; nano: number; twice: boolean }
  | { kind: "send"; which: number; output: number }
  | { kind: "crash" };

const user = fc.integer({ min: 0, max: 2 });
const which = fc.nat({ max: 50 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fund" as const),
      user,
      nano: fc.integer({ min: 1, max: 500 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("hold" as const),
      user,
      wanted: fc.integer({ min: 0, max: 200 }),
      least: fc.integer({ min: 0, max: 80 }),
      firm: fc.integer({ min: 0, max: 150 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      which,
      nano: fc.integer({ min: 0, max: 300 }),
      twice: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("send" as const), which, output: fc.nat({ max: 100 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "crash" as const }) },
);

interface Open {
  id: string;
  user: number;
  amount: bigint;
  sent: boolean;
  output: number;
}

const INPUT = 20;

/** Between the minimum and the wanted amount. */
const computeFirm = ({ wanted, least, firm }: Extract<Step, { kind: "hold" }>) =>
  BigInt(Math.min(wanted, Math.max(least, firm)));

/** Progress is written by a timer that is due before this one, and by the work it leaves for the next turn. */
async function journalled(): Promise<void> {
  await Bun.sleep(5);
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

async function play(
  db: Db,
  rounds: readonly (readonly Step[])[],
  runId: number,
  lane: "plain" | "express",
): Promise<void> {
  let life = 0;
  const dir = mkdtempSync(join(tmpdir(), "gateway-model-"));
  let reach = makeKillableDb(db);
  const born = () => {
    reach = makeKillableDb(db);
    return makeBilling(reach, {
      dir,
      processId: `inc_${runId}_${++life}`,
      limits: { ...limits.billingEngine, progressMs: 0, checkpointMs: 0 },
      ...(lane === "express" ? { writeBehind: {} } : {}),
    });
  };
  let billingEngine: BillingUnderTest = born();
  const nameUser = (index: number) => `u${runId}_${index}`;
  const balance = [0n, 0n, 0n];
  const held = [0n, 0n, 0n];
  let open: Open[] = [];
  let made = 0;

  for (const round of rounds) {
    // All operations of a round are submitted at once: they share transactions, and settlements go first.
    const waiting: (Promise<void> | null)[] = [];
    const holds = round.filter((one) => one.kind === "hold");
    for (const one of round) {
      if (one.kind === "fund") {
        await addFunds(db, nameUser(one.user), BigInt(one.nano));
        balance[one.user] = (balance[one.user] ?? 0n) + BigInt(one.nano);
      }
      if (one.kind === "settle" && open.length > 0) {
        const [hold] = open.splice(one.which % open.length, 1);
        if (hold === undefined) continue;
        const settlement = buildTestSettlement(hold.id, BigInt(one.nano), nameUser(hold.user));
        waiting.push(billingEngine.settle(settlement));
        if (one.twice) waiting.push(billingEngine.settle(settlement));
        // The whole cost, even above the hold: a balance may become negative.
        balance[hold.user] = (balance[hold.user] ?? 0n) - BigInt(one.nano);
        held[hold.user] = (held[hold.user] ?? 0n) - hold.amount;
      }
      if (one.kind === "send" && open.length > 0) {
        const hold = open[one.which % open.length];
        if (hold === undefined) continue;
        billingEngine.recordDispatch(hold.id, "acc", "gpt");
        billingEngine.checkpoint(hold.id, one.output);
        hold.sent = true;
        hold.output = Math.max(hold.output, one.output);
      }
    }
    await Promise.all(waiting);
    const results = await Promise.all(
      holds.map(async (one) => {
        const least = BigInt(Math.min(one.least, one.wanted));
        const id = `r${runId}_${++made}`;
        const asked = buildHoldRequest(id, {
          userId: nameUser(one.user),
          wantedNano: BigInt(one.wanted),
          leastNano: least,
          firmNano: computeFirm(one),
        });
        return { id, result: await billingEngine.hold({ ...asked, inputTokens: INPUT }) };
      }),
    );
    holds.forEach((one, index) => {
      const got = results[index];
      const available = (balance[one.user] ?? 0n) - (held[one.user] ?? 0n);
      const least = BigInt(Math.min(one.least, one.wanted));
      const wanted = BigInt(one.wanted);
      const firm = computeFirm(one);
      if (wanted > 0n && available < 0n) {
        expect(got?.result).toEqual({ kind: "in_debt", debtNano: -available });
        return;
      }
      if (firm > least && available < firm && (balance[one.user] ?? 0n) >= firm) {
        expect(got?.result).toEqual({ kind: "blocked", availableNano: available, neededNano: firm });
        return;
      }
      if (wanted > 0n && available < least) {
        expect(got?.result).toEqual({ kind: "short", availableNano: available, resetsAtMs: null });
        return;
      }
      const amount = wanted < available || wanted === 0n ? wanted : available;
      expect(got?.result).toEqual({ kind: "held", amountNano: amount, subscriptionId: null });
      held[one.user] = (held[one.user] ?? 0n) + amount;
      open.push({ id: got?.id ?? "", user: one.user, amount, sent: false, output: 0 });
    });
    if (round.some((one) => one.kind === "crash")) {
      // Under write-behind billing the journal has what the database does not.
      if (lane === "plain") await billingEngine.flush();
      else await journalled();
      reach.kill();
      await billingEngine.stop();
      billingEngine = born();
      const recovery = await recover(db, billingEngine);
      await recovery.stop();
      await recovery.unregister();
      for (const hold of open) {
        const cost = hold.sent ? BigInt(INPUT + hold.output) : 0n;
        balance[hold.user] = (balance[hold.user] ?? 0n) - (cost < hold.amount ? cost : hold.amount);
        held[hold.user] = (held[hold.user] ?? 0n) - hold.amount;
      }
      open = [];
    }
    for (const index of [0, 1, 2]) {
      await billingEngine.flushUser(nameUser(index));
      expect(await readWallet(db, nameUser(index))).toEqual({
        balanceNano: balance[index] ?? 0n,
        heldNano: held[index] ?? 0n,
      });
    }
  }
  const { findings } = await reconcileLedger(db, {
    nowMs: Date.now(),
    holdAgeMaxMs: 3_600_000,
    findingsMax: 10,
  });
  expect(findings).toEqual([]);
  await billingEngine.stop();
}

eachEngine(({ open }) => {
  test("balances and holds match the model after any sequence of requests, settlements and crashes", async () => {
    const db = await open();
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 8 }),
        (rounds) => play(db, rounds, ++runs, "plain"),
      ),
      { numRuns: db.engine === "sqlite" ? 60 : 20, endOnFailure: true },
    );
  }, 60_000);
});

test("write-behind billing matches the model if the process dies before any write", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 8 }),
      (rounds) => play(db, rounds, ++runs, "express"),
    ),
    { numRuns: 150, endOnFailure: true },
  );
}, 60_000);
