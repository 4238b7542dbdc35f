/** Every change made outside of the gateway contradicts other data, and the reconciliation reports it. */

import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { userRecord } from "../../records/records.test-support.ts";
import { openDigester } from "../../secrets/api-key.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { loggedEntryFields } from "../../store/checks/entries-in-audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { changeWallets } from "../../store/money/wallet-reservations.ts";
import { Numbering, UsageNumbers } from "../../store/usage/usage-numbers.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "../engine/direct-billing.test-support.ts";
import { adjust, type MoneyResult, refund, topUp } from "../operations/operations.ts";
import { createCodes, redeem } from "../operations/redeem.ts";
import { bookBatches } from "../write-behind/book-batches.ts";
import { RowBatch } from "../write-behind/row-batch.ts";
import { reconcileLedger } from "./reconciliation.ts";

const NOW_MS = Date.now();

async function addUser(db: Db, id: string): Promise<void> {
  const createdAtMs = 1;
  await putUser(db, userRecord(id));
  await addFunds(db, id, 1_000n);
  const windows = [{ per: "month", usd: "1", counted: "calendar" } as const];
  await putPlan(db, { id: `plan_${id}`, name: `plan-${id}`, timeZone: "UTC", windows, createdAtMs });
  await putSubscription(db, {
    id: `sub_${id}`,
    userId: id,
    planId: `plan_${id}`,
    startsAtMs: 0,
    endsAtMs: null,
    renews: "none",
    priority: 1,
    status: "active",
    createdAtMs,
  });
}

/** Like the console and the command line: the audit log records the operation. */
async function bookAndLog(db: Db, action: string, book: (tx: Db) => Promise<MoneyResult>): Promise<void> {
  await transaction(db, async (tx) => {
    const { entry } = await book(tx);
    const actor = { kind: "cli", id: null, name: "ada" } as const;
    const changes = loggedEntryFields(entry);
    await appendChange(tx, { atMs: NOW_MS, actor, action, target: "user", changes, address: null });
  });
}

/**
 * Two users: `r1` and `r2` were paid from their balances, `r3` by a subscription, `m1` and `m2` by one shared charge.
 * `r1` was refunded in part, a code was redeemed, and money was added and removed by adjustment.
 */
async function someBooks(db: Db): Promise<void> {
  for (const id of ["u1", "u2"]) await addUser(db, id);
  const billingEngine = makeBilling(db);
  await billingEngine.hold(buildHoldRequest("r1"));
  await billingEngine.hold(buildHoldRequest("r2", { userId: "u2" }));
  await billingEngine.hold(buildHoldRequest("r3", { charge: "subscription" }));
  await billingEngine.settle(buildTestSettlement("r1", 30n));
  await billingEngine.settle(buildTestSettlement("r2", 20n, "u2"));
  const { row, chargedNano } = buildTestSettlement("r3", 10n);
  await billingEngine.settle({ row: { ...row, payer: "subscription" }, chargedNano });
  await billingEngine.stop();
  const lent = { userId: "u1", balanceNano: 0n, heldNano: 14n, reservedNano: 14n };
  await transaction(db, async (tx) => {
    await changeWallets(tx, "inc", [lent]);
    const steps = { size: 10, pause: async () => {}, mayEnd: () => false };
    const batch = new RowBatch("u1", true, 1);
    for (const id of ["m1", "m2"]) batch.add(buildTestSettlement(id, 7n).row, 1);
    await bookBatches(tx, "inc", [batch], new Numbering(new UsageNumbers()), NOW_MS, steps);
  });
  let made = 0;
  const desk = {
    db,
    clock: { nowMs: () => NOW_MS },
    newId: (prefix: string) => `${prefix}_${++made}`,
    digest: openDigester(new Uint8Array(32).fill(7)),
    randomBytes,
  };
  const by = { actor: "cli:ada", reason: "asked for it" };
  await bookAndLog(db, "wallet.top_up", (tx) =>
    topUp({ ...desk, db: tx }, { ...by, userId: "u1", amountNano: 40n, provider: "manual" }),
  );
  await bookAndLog(db, "wallet.adjust", (tx) =>
    adjust({ ...desk, db: tx }, { ...by, userId: "u1", amountNano: -2n }),
  );
  await bookAndLog(db, "wallet.refund", (tx) =>
    refund({ ...desk, db: tx }, { ...by, requestId: "r1", amountNano: 5n }),
  );
  const batch = { name: "spring", count: 2, expiresAtMs: null, actor: "cli:ada" };
  const [code = ""] = await createCodes(desk, { ...batch, value: { kind: "money", amountNano: 3n } });
  await redeem(desk, { userId: "u1", code, actor: "u1" });
}

async function runChecks(db: Db): Promise<string[]> {
  const { findings } = await reconcileLedger(db, {
    nowMs: Date.now(),
    holdAgeMaxMs: 3_600_000,
    findingsMax: 10,
  });
  return findings.map(({ check, subject }) => `${check} ${subject}`);
}

/**
 * What was changed in the ledger, and what the reconciliation must report. Balances are corrected again where
 * possible.
 */
const TAMPERED: readonly (readonly [what: string, statements: string, named: string])[] = [
  [
    "a charge taken from another user's book",
    `UPDATE entry SET debit = 'user:u2' WHERE id = 'charge:r1';
     UPDATE wallet SET balance_nano = balance_nano + CASE user_id WHEN 'u1' THEN 30 ELSE -30 END`,
    "entry charge:r1",
  ],
  [
    "a charge moved to another user",
    `UPDATE entry SET debit = 'user:u2', user_id = 'u2' WHERE id = 'charge:r1';
     UPDATE wallet SET balance_nano = balance_nano + CASE user_id WHEN 'u1' THEN 30 ELSE -30 END`,
    "entry_row charge:r1",
  ],
  [
    "a charge moved to another subscription",
    "UPDATE entry SET debit = 'subscription:sub_u2', subscription_id = 'sub_u2' WHERE id = 'charge:r3'",
    "entry charge:r3",
  ],
  [
    "a charge moved from a subscription to the balance",
    `UPDATE entry SET debit = 'user:u1', subscription_id = NULL WHERE id = 'charge:r3';
     UPDATE wallet SET balance_nano = balance_nano - 10 WHERE user_id = 'u1'`,
    "entry_row charge:r3",
  ],
  [
    "a charge turned into a credit",
    `UPDATE entry SET debit = 'revenue', credit = 'user:u1' WHERE id = 'charge:r1';
     UPDATE wallet SET balance_nano = balance_nano + 60 WHERE user_id = 'u1'`,
    "entry charge:r1",
  ],
  [
    "a charge with a changed amount",
    `UPDATE entry SET amount_nano = 29 WHERE id = 'charge:r1';
     UPDATE wallet SET balance_nano = balance_nano + 1 WHERE user_id = 'u1'`,
    "entry_row charge:r1",
  ],
  [
    "a charge and its row with a changed amount",
    `UPDATE entry SET amount_nano = 29 WHERE id = 'charge:r1';
     UPDATE usage_row SET charged_nano = 29 WHERE request_id = 'r1';
     UPDATE usage_hour SET charged_nano = charged_nano - 1;
     UPDATE wallet SET balance_nano = balance_nano + 1 WHERE user_id = 'u1'`,
    "row_charge r1",
  ],
  [
    "a charge moved to a time for which no row is required",
    "UPDATE entry SET at_ms = 1 WHERE id = 'charge:r1'",
    "entry_row charge:r1",
  ],
  [
    "a deleted charge",
    `DELETE FROM entry WHERE id = 'charge:r1';
     UPDATE wallet SET balance_nano = balance_nano + 30 WHERE user_id = 'u1'`,
    "row_entry r1",
  ],
  [
    "a top-up deleted and subtracted from the balance",
    `DELETE FROM entry WHERE id = 'topup:entry_1';
     UPDATE wallet SET balance_nano = balance_nano - 40 WHERE user_id = 'u1'`,
    "log_entry topup:entry_1",
  ],
  [
    "an adjustment reversed together with its balance",
    `UPDATE entry SET debit = credit, credit = debit WHERE id = 'adjust:entry_2';
     UPDATE wallet SET balance_nano = balance_nano + 4 WHERE user_id = 'u1'`,
    "log_entry adjust:entry_2",
  ],
  [
    "a refund changed together with its balance",
    `UPDATE entry SET amount_nano = 6 WHERE id = 'refund:entry_3';
     UPDATE wallet SET balance_nano = balance_nano + 1 WHERE user_id = 'u1'`,
    "log_entry refund:entry_3",
  ],
  [
    "a top-up without an order",
    `INSERT INTO entry SELECT 'topup:x', at_ms + 1, kind, debit, credit, amount_nano, user_id, NULL, NULL, actor, reason
       FROM entry WHERE id = 'topup:entry_1';
     UPDATE wallet SET balance_nano = balance_nano + 40 WHERE user_id = 'u1'`,
    "entry_log topup:x",
  ],
  ["a deleted top-up", "DELETE FROM entry WHERE kind = 'topup' AND user_id = 'u1'", "balance user:u1"],
  [
    "a top-up with a changed amount",
    "UPDATE entry SET amount_nano = 999 WHERE kind = 'topup'",
    "balance user:u1",
  ],
  [
    "a shared charge with a changed amount",
    `UPDATE entry SET amount_nano = 13 WHERE request_id IS NULL AND kind = 'charge';
     UPDATE wallet SET balance_nano = balance_nano + 1 WHERE user_id = 'u1'`,
    "shared_charge charge:m1",
  ],
  [
    "one share of a charge increased at the expense of another",
    `UPDATE usage_row SET charged_nano = 6 WHERE request_id = 'm1';
     UPDATE usage_row SET charged_nano = 8 WHERE request_id = 'm2'`,
    "row_charge m1",
  ],
  [
    "a shared charge with a changed time",
    "UPDATE entry SET at_ms = at_ms - 1 WHERE id = 'charge:m1'",
    "shared_charge charge:m1",
  ],
  [
    "a usage row moved to another user",
    "UPDATE usage_row SET user_no = (SELECT no FROM usage_id WHERE id = 'u2') WHERE request_id = 'r1'",
    "entry_row charge:r1",
  ],
  [
    "a usage row without a user",
    "UPDATE usage_row SET user_no = NULL WHERE request_id = 'r1'",
    "entry_row charge:r1",
  ],
  [
    "a usage row deleted and subtracted from its hour",
    `DELETE FROM usage_row WHERE request_id = 'r1';
     UPDATE usage_hour SET requests = requests - 1, charged_nano = charged_nano - 30, cost_nano = cost_nano - 30`,
    "entry_row charge:r1",
  ],
  [
    "a charged row marked as unpaid",
    "UPDATE usage_kind SET payer = NULL WHERE no = (SELECT kind_no FROM usage_row WHERE request_id = 'm1')",
    "row_charge m1",
  ],
  [
    "a refund moved to another user",
    `UPDATE entry SET credit = 'user:u2', user_id = 'u2' WHERE kind = 'refund';
     UPDATE wallet SET balance_nano = balance_nano + CASE user_id WHEN 'u1' THEN -5 ELSE 5 END`,
    "refund r1",
  ],
  [
    "a refund to another user's book",
    `UPDATE entry SET credit = 'user:u2' WHERE kind = 'refund';
     UPDATE wallet SET balance_nano = balance_nano + CASE user_id WHEN 'u1' THEN -5 ELSE 5 END`,
    "entry refund:entry_3",
  ],
  [
    "a redeemed code without its entry",
    `DELETE FROM entry WHERE kind = 'redeem';
     UPDATE wallet SET balance_nano = balance_nano - 3 WHERE user_id = 'u1'`,
    "code",
  ],
  [
    "a redeemed code of another user",
    "UPDATE redeem_code SET redeemed_by = 'u2' WHERE redeemed_at_ms IS NOT NULL",
    "code",
  ],
  [
    "a code with a lower value than its entry",
    `UPDATE entry SET amount_nano = 4 WHERE kind = 'redeem';
     UPDATE wallet SET balance_nano = balance_nano + 1 WHERE user_id = 'u1'`,
    "code",
  ],
  ["a redeemed code marked as unused", "UPDATE redeem_code SET redeemed_at_ms = NULL", "code"],
  [
    "a redeem entry without a code",
    `INSERT INTO entry VALUES ('redeem:x', 1, 'redeem', 'promo', 'user:u1', 9, 'u1', NULL, NULL, 'u1', NULL);
     UPDATE wallet SET balance_nano = balance_nano + 9 WHERE user_id = 'u1'`,
    "code redeem:x",
  ],
  [
    "a subscription window with too little use",
    "UPDATE subscription_window SET used_nano = used_nano - 1 WHERE subscription_id = 'sub_u1'",
    "window sub_u1",
  ],
];

eachEngine(({ open }) => {
  test("an untouched ledger has no findings", async () => {
    const db = await open();
    await someBooks(db);
    expect(await runChecks(db)).toEqual([]);
  });

  test.each(TAMPERED)("reports %s", async (_what, statements, named) => {
    const db = await open();
    await someBooks(db);
    await db.sql.script(statements);
    expect((await runChecks(db)).map((found) => found.slice(0, named.length))).toContain(named);
  });
});
