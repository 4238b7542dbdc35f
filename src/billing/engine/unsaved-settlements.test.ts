import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BillingMetrics } from "../../observe/billing-metrics.ts";
import { buildTestSettlement } from "./direct-billing.test-support.ts";
import { SettlementSpool } from "./settlement-spool.ts";
import { UnsavedSettlements } from "./unsaved-settlements.ts";

test("settlements are counted as overdue until the database has them", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gateway-unsaved-"));
  const metrics = new BillingMetrics();
  const unsaved = new UnsavedSettlements({
    spool: new SettlementSpool(dir, "inc_1"),
    log: { info() {}, warn() {}, error() {} },
    retryMs: 10,
    metrics,
  });
  await unsaved.save([buildTestSettlement("r1", 30n), buildTestSettlement("r2", 30n)]);
  expect(metrics.overdueSettlements).toBe(2);
  unsaved.markBooked("r1");
  unsaved.markBooked("unknown");
  expect(metrics.overdueSettlements).toBe(1);
  unsaved.markBooked("r2");
  expect(metrics.overdueSettlements).toBe(0);
  await unsaved.close();
  rmSync(dir, { recursive: true });
});
