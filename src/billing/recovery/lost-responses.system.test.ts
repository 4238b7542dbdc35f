/** The connection to PostgreSQL breaks after a commit and before its response: the process cannot know the result. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../../test/support/eventually.ts";
import { type Postgres, startPostgres } from "../../../test/support/postgres.ts";
import { type SilentProxy, startSilentProxy } from "../../../test/support/silent-proxy.ts";
import { systemClock } from "../../base/clock.ts";
import { openKeyring } from "../../secrets/keyring.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
} from "../engine/direct-billing.test-support.ts";
import { Idempotency } from "../idempotency/idempotency.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";

setDefaultTimeout(60_000);

const MUCH = 1_000_000n;
let postgres: Postgres;
let proxy: SilentProxy;
/** Through the proxy. */
let db: Db;
/** What the server really has. */
let truth: Db;

beforeEach(async () => {
  postgres = await startPostgres();
  truth = await openDb(postgres.url);
  await migrate(truth);
  await addFunds(truth, "u1", MUCH);
  const url = new URL(postgres.url);
  proxy = startSilentProxy({ hostname: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  db = await openDb(url.href, { workload: "billing" });
});

afterEach(async () => {
  await db.close();
  proxy.stop();
  await truth.close();
  await postgres.stop();
});

const findings = async () =>
  (await reconcileLedger(truth, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;

const limits = { ...LIMITS, retryMs: 20, settlementTimeoutMs: 30_000, holdTimeoutMs: 30_000 };
const ENGINES = { "direct billing": undefined, "write-behind billing": { smallBatchDelayMs: 5 } };

for (const [name, writeBehind] of Object.entries(ENGINES)) {
  test(`${name} charges once when the answer to the commit of a settlement is lost`, async () => {
    const billingEngine = makeBilling(db, writeBehind ? { limits, writeBehind } : { limits });
    // The kind of the row is registered in a transaction of its own, before the first settlement.
    await billingEngine.hold(buildHoldRequest("r0"));
    await billingEngine.settle(buildTestSettlement("r0", 30n));
    await billingEngine.flush();
    await billingEngine.hold(buildHoldRequest("r1"));
    proxy.loseResponseTo("COMMIT");
    await billingEngine.settle(buildTestSettlement("r1", 30n));
    await eventually(() => proxy.hasLostResponse);
    await eventually(() =>
      billingEngine.flush().then(
        () => true,
        () => false,
      ),
    );
    await billingEngine.flushUser("u1");
    expect((await findUsage(truth, "r1"))?.chargedNano).toBe(30n);
    const events = billingEngine.logged.map(({ event }) => event);
    for (const event of ["billing_operation_rejected", "wallet_reservations_lost"])
      expect(events).not.toContain(event);
    expect(await readWallet(truth, "u1")).toEqual({ balanceNano: MUCH - 60n, heldNano: 0n });
    expect(await findings()).toEqual([]);
    await billingEngine.stop();
  });

  test(`${name} holds once when the answer to the commit of a hold is lost`, async () => {
    const billingEngine = makeBilling(db, writeBehind ? { limits, writeBehind } : { limits });
    proxy.loseResponseTo("COMMIT");
    expect((await billingEngine.hold(buildHoldRequest("r1"))).kind).toBe("held");
    expect(proxy.hasLostResponse).toBe(true);
    await billingEngine.settle(buildTestSettlement("r1", 30n));
    await billingEngine.flush();
    await billingEngine.flushUser("u1");
    expect(await readWallet(truth, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
    expect(await findings()).toEqual([]);
    await billingEngine.stop();
  });
}

test("an idempotency key is free again when the answer to its claim is lost", async () => {
  await truth.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms) VALUES ('inc_1', 'h', 1, 1, 1)`;
  const folder = mkdtempSync(join(tmpdir(), "gateway-idempotency-"));
  const idempotency = new Idempotency({
    db,
    clock: systemClock,
    keyring: openKeyring({ file: join(folder, "master.key"), fromEnv: undefined }),
    processId: "inc_1",
    keptMs: 3_600_000,
    responseBytesMax: 1_000,
    pauseMs: 20,
  });
  const claim = (requestId: string) => ({ scope: "k1", token: "lost-token", fingerprint: "f", requestId });
  proxy.loseResponseTo("lost-token");
  await expect(idempotency.begin(claim("r1"))).rejects.toThrow();
  // The client of r1 got an error, and nothing was executed. Its repeat must be.
  await eventually(async () => (await idempotency.begin(claim("r2"))).kind, { equals: "new" });
});
