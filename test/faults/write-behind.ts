/** Write-behind billing, killed in the middle of its work: the journal, the reservations and the store afterwards. */

import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, uuidV7 } from "../../src/base/clock.ts";
import { DirectBilling } from "../../src/billing/engine/direct-billing.ts";
import { SettlementSpool } from "../../src/billing/engine/settlement-spool.ts";
import { reconcileLedger } from "../../src/billing/maintenance/reconciliation.ts";
import { describeProcess } from "../../src/billing/recovery/process-watch.ts";
import { startRecovery } from "../../src/billing/recovery/recovery.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { BillingFaults } from "../../src/observe/billing-faults.ts";
import { type Db, openDb, transaction } from "../../src/store/engine/db.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { integer, nano, text } from "../../src/store/engine/row.ts";
import { postTransfer } from "../../src/store/money/ledger.ts";
import { checked, type Fault, figure, none } from "./fault.ts";
import { USERS } from "./write-behind-setup.ts";

const KILLS = 100;

interface Acknowledgements {
  /** Holds that billing acknowledged. */
  held: Map<string, bigint>;
  /** Settlements that billing acknowledged. */
  ended: Map<string, bigint>;
  /** Unpaid rows that were pushed. */
  pushed: Set<string>;
}

export const writeBehind: Fault = {
  name: "write-behind",
  promise:
    "kill -9 at random moments of write-behind billing at thousands of requests a second: the journal completes the ledger",
  async run({ times, say }) {
    const folder = mkdtempSync(join(tmpdir(), "gateway-write-behind-"));
    const db = await openDb(`sqlite:${join(folder, "billing.db")}`);
    await migrate(db);
    await fund(db);
    const acknowledged: Acknowledgements = { held: new Map(), ended: new Map(), pushed: new Set() };
    const kills = times ?? KILLS;
    let livedMs = 0;
    for (let kill = 1; kill <= kills; kill++) {
      const lifeMs = 30 + Math.random() * 900;
      livedMs += lifeMs;
      await liveAndDie(folder, lifeMs, acknowledged);
      if (kill % 10 === 0 || kill === kills)
        say(`kill ${kill}/${kills}: ${acknowledged.ended.size} ended so far`);
    }
    await recover(db, folder);
    const findings = [
      figure("kills / seconds lived", `${kills} / ${(livedMs / 1000).toFixed(0)}`),
      figure("holds acknowledged a second", Math.round(acknowledged.held.size / (livedMs / 1000))),
      ...(await reconcile(db, folder, acknowledged)),
    ];
    await db.close();
    rmSync(folder, { recursive: true, force: true });
    return findings;
  },
};

async function fund(db: Db): Promise<void> {
  await transaction(db, async (tx) => {
    for (const { id, balanceNano } of USERS) {
      await postTransfer(tx, {
        id: `topup:${id}`,
        atMs: Date.now(),
        kind: "topup",
        debit: "topup:faults",
        credit: `user:${id}`,
        amountNano: balanceNano,
        userId: id,
        subscriptionId: null,
        requestId: null,
        actor: "faults",
        reason: null,
      });
    }
  });
}

async function liveAndDie(folder: string, lifeMs: number, acknowledged: Acknowledgements): Promise<void> {
  const child = Bun.spawn(["bun", join(import.meta.dir, "write-behind-child.ts"), folder], {
    stdout: "pipe",
    stderr: "inherit",
  });
  let said = "";
  let killing: ReturnType<typeof setTimeout> | null = null;
  const decoder = new TextDecoder();
  for await (const chunk of child.stdout) {
    said += decoder.decode(chunk, { stream: true });
    // It lives as long from when it has settled what the one before it left.
    if (killing === null && said.startsWith("ready\n")) killing = setTimeout(() => child.kill(9), lifeMs);
  }
  await child.exited;
  // The last line may be cut off: it was not acknowledged.
  for (const line of said.split("\n").slice(0, -1)) {
    const [what, id = "", amount = "0"] = line.split(" ");
    if (what === "held") acknowledged.held.set(id, BigInt(amount));
    if (what === "ended") acknowledged.ended.set(id, BigInt(amount));
    if (what === "pushed") acknowledged.pushed.add(id);
  }
}

async function recover(db: Db, folder: string): Promise<void> {
  const self = describeProcess(uuidV7("inc"), Date.now());
  const log = { info() {}, warn() {}, error: console.error };
  const billingEngine = new DirectBilling({
    db,
    log,
    clock: systemClock,
    processId: self.id,
    spool: new SettlementSpool(folder, self.id),
    durability: "process",
    faults: new BillingFaults(systemClock.nowMs),
    limits: limits.billingEngine,
  });
  const recovery = await startRecovery({
    db,
    log,
    clock: systemClock,
    billingEngine,
    self,
    spoolDir: folder,
    faults: new BillingFaults(systemClock.nowMs),
    limits: limits.recovery,
  });
  await recovery.stop();
  await billingEngine.stop();
}

async function reconcile(db: Db, folder: string, { held, ended, pushed }: Acknowledgements) {
  const rows = await db.sql`
    SELECT request_id, CAST(charged_nano AS TEXT) AS charged, COALESCE(flags, '') AS flags FROM usage`;
  const charged = new Map(rows.map((row) => [text(row, "request_id"), nano(row, "charged")]));
  const [sums] = await db.sql`
    SELECT CAST((SELECT SUM(amount_nano) FROM entry WHERE kind = 'charge') AS TEXT) AS entries,
      CAST((SELECT SUM(charged_nano) FROM usage) AS TEXT) AS charges,
      CAST((SELECT SUM(balance_nano) FROM wallet) AS TEXT) AS balances,
      CAST((SELECT SUM(held_nano) FROM wallet) AS TEXT) AS held,
      (SELECT COUNT(*) FROM hold) AS holds, (SELECT COUNT(*) FROM wallet_reservation) AS reservations`;
  if (sums === undefined) throw new Error("A sum is one row.");
  const opening = USERS.reduce((sum, { balanceNano }) => sum + balanceNano, 0n);
  const total = nano(sums, "charges");
  const { findings } = await reconcileLedger(db, {
    nowMs: Date.now(),
    holdAgeMaxMs: 3_600_000,
    findingsMax: 10,
  });
  return [
    figure("acknowledged: held / ended / unpaid", `${held.size} / ${ended.size} / ${pushed.size}`),
    figure(
      "rows / of these recovered",
      `${rows.length} / ${rows.filter((row) => text(row, "flags").includes("recovered")).length}`,
    ),
    none(
      "acknowledged as booked, and there is no row, or another amount",
      [...ended].filter(([id, amount]) => charged.get(id) !== amount).map(([id]) => id),
    ),
    none(
      "acknowledged as held, and there is no row",
      [...held.keys()].filter((id) => !charged.has(id)),
    ),
    none(
      "acknowledged unpaid row that does not exist",
      [...pushed].filter((id) => !charged.has(id)),
    ),
    none(
      "charged more than was held",
      [...held].filter(([id, amount]) => (charged.get(id) ?? 0n) > amount).map(([id]) => id),
    ),
    none(
      "charged, and the hold was not acknowledged",
      [...charged].filter(([id, amount]) => amount > 0n && !held.has(id)).map(([id]) => id),
    ),
    checked(
      "sum of the charge entries",
      nano(sums, "entries"),
      String(total),
      nano(sums, "entries") === total,
    ),
    checked(
      "balances at the end",
      nano(sums, "balances"),
      String(opening - total),
      nano(sums, "balances") === opening - total,
    ),
    checked("held at the end", nano(sums, "held"), "0", nano(sums, "held") === 0n),
    checked(
      "holds and reservations left",
      integer(sums, "holds") + integer(sums, "reservations"),
      "0",
      integer(sums, "holds") + integer(sums, "reservations") === 0,
    ),
    none(
      "journals left",
      readdirSync(folder).filter((name) => name.startsWith("journal-")),
    ),
    none(
      "findings of the audit",
      findings.map(({ subject }) => String(subject)),
    ),
  ];
}
