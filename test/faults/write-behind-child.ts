/**
 * Billing under more load than a gateway on this machine could create, until it is killed. Prints what billing has
 * acknowledged, after it has: `held <id> <nano>`, `ended <id> <nano>`, `pushed <id>`.
 */

import { writeSync } from "node:fs";
import { join } from "node:path";
import { systemClock, uuidV7 } from "../../src/base/clock.ts";
import { SettlementSpool } from "../../src/billing/engine/settlement-spool.ts";
import { Journal } from "../../src/billing/journal/journal.ts";
import { describeProcess } from "../../src/billing/recovery/process-watch.ts";
import { startRecovery } from "../../src/billing/recovery/recovery.ts";
import { WriteBehindBilling } from "../../src/billing/write-behind/write-behind-billing.ts";
import { limits } from "../../src/config/limits/product-limits.ts";
import { BillingFaults } from "../../src/observe/billing-faults.ts";
import { openDb } from "../../src/store/engine/db.ts";
import { openWalCheckpointer } from "../../src/store/engine/wal-checkpointer.ts";
import { usageRow } from "../../src/store/usage/usage-row.test-support.ts";
import { TARIFF, USERS } from "./write-behind-setup.ts";

const [folder = ""] = process.argv.slice(2);
const url = `sqlite:${join(folder, "billing.db")}`;
const db = await openDb(url);
const self = describeProcess(uuidV7("inc"), Date.now());
const log = { info() {}, warn() {}, error: (event: string) => void writeSync(2, `${event}\n`) };
const billingEngine = new WriteBehindBilling({
  db,
  bookingDb: await openDb(url),
  log,
  clock: systemClock,
  processId: self.id,
  spool: new SettlementSpool(folder, self.id),
  journal: new Journal({ dir: folder, processId: self.id, segmentBytes: 200_000 }),
  durability: "process",
  faults: new BillingFaults(systemClock.nowMs),
  limits: limits.billingEngine,
  // Holds and the log are moved and reservations released many times in a short life.
  writeBehind: {
    ...limits.writeBehind,
    busyHolds: 1,
    largeBatchDelayMs: 200,
    moveHoldAfterMs: 150,
    idleMs: 60,
    checkIntervalMs: 40,
    checkpointAfterRows: 300,
  },
  checkpointWal: openWalCheckpointer(url).checkpoint,
});
await startRecovery({
  db,
  log,
  clock: systemClock,
  billingEngine,
  self,
  spoolDir: folder,
  faults: new BillingFaults(systemClock.nowMs),
  limits: limits.recovery,
});
writeSync(1, "ready\n");

async function request(): Promise<void> {
  const requestId = uuidV7("req");
  const userId = USERS[Math.floor(Math.random() * USERS.length)]?.id ?? "";
  const held = await billingEngine.hold({
    requestId,
    userId,
    charge: "balance",
    plans: null,
    tariff: TARIFF,
    wantedNano: BigInt(1_000 + Math.floor(Math.random() * 20_000)),
    leastNano: 500n,
    inputTokens: 300,
    keyId: `key_${userId}`,
    groupId: "g1",
    interface: "chat",
    endpoint: "chat.completions",
    publicModel: "fast",
    stream: true,
    isLasting: Math.random() < 0.02,
  });
  if (held.kind !== "held") return;
  writeSync(1, `held ${requestId} ${held.amountNano}\n`);
  billingEngine.recordDispatch(requestId, "acc_1", "gpt");
  const lastsMs = Math.random() < 0.05 ? 300 : Math.random() * 40;
  await Bun.sleep(lastsMs);
  billingEngine.checkpoint(requestId, Math.floor(Math.random() * 100));
  const chargedNano = (held.amountNano * BigInt(Math.floor(Math.random() * 100))) / 100n;
  const row = usageRow({
    requestId,
    userId,
    keyId: `key_${userId}`,
    atMs: Date.now(),
    costNano: chargedNano,
    chargedNano,
    payer: "balance",
    tariffId: TARIFF.id,
  });
  await billingEngine.settle({ row, chargedNano });
  writeSync(1, `ended ${requestId} ${chargedNano}\n`);
}

function unpaid(): void {
  const requestId = uuidV7("req");
  const { id: userId = "" } = USERS[Math.floor(Math.random() * USERS.length)] ?? {};
  billingEngine.push(usageRow({ requestId, userId, keyId: `key_${userId}`, atMs: Date.now() }));
  writeSync(1, `pushed ${requestId}\n`);
}

for (;;) {
  for (let many = 0; many < 4; many++) void request();
  for (let many = 0; many < 3; many++) unpaid();
  await Bun.sleep(1);
}
