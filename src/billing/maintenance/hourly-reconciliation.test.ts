import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BillingFaults } from "../../observe/billing-faults.ts";
import { openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { runAlone } from "../../store/nodes/job-leases.test-support.ts";
import { addFunds } from "../engine/direct-billing.test-support.ts";
import { startHourlyReconciliation } from "./hourly-reconciliation.ts";

test("reconciliation runs next to the server and logs findings as errors, which raise an alert", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gateway-audit-"));
  const databaseUrl = `sqlite:${dir}/audit.db`;
  const db = await openDb(databaseUrl);
  await migrate(db);
  await addFunds(db, "u1", 10n);
  const events: string[] = [];
  const note = (event: string) => void events.push(event);
  const faults = new BillingFaults(Date.now);
  const countFailed = () => faults.list().find(({ fault }) => fault === "reconciliation_failed")?.count;
  const hourly = startHourlyReconciliation({
    databaseUrl,
    log: { info: note, warn: note, error: note },
    everyMs: 3_600_000,
    holdAgeMaxMs: 3_600_000,
    runJob: runAlone,
    faults,
  });
  await hourly.run();
  expect(countFailed()).toBe(0);
  await db.sql`UPDATE wallet SET balance_nano = 11`;
  await hourly.run();
  expect(events).toEqual(["audit_passed", "audit_failed"]);
  expect(countFailed()).toBe(1);
  hourly.stop();
  await db.close();
  rmSync(dir, { recursive: true });
});
