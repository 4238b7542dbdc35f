/** The restore to a moment, as docs/many-nodes.md describes it: base backup, archived log, recovery to a time. */

import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDb } from "../../src/store/engine/db.ts";
import { eventually } from "../support/eventually.ts";
import { runCommand } from "../support/gateway-process.ts";
import { openBillingRecords, type PaidGateway, startPaidGateway } from "../support/paid-gateway.ts";
import { PostgresServer } from "../support/postgres-server.ts";

setDefaultTimeout(120_000);

const environment = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64") };
const folder = mkdtempSync(join(tmpdir(), "model-gateway-restore-"));
const servers: PostgresServer[] = [];
const gateways: PaidGateway[] = [];

afterAll(async () => {
  for (const gateway of gateways) await gateway.stop();
  for (const server of servers) await server.remove();
  rmSync(folder, { recursive: true, force: true });
});

async function start(server: PostgresServer): Promise<PaidGateway> {
  const gateway = await startPaidGateway(
    { balance: "10" },
    { databaseUrl: server.url("gateway"), environment },
  );
  gateways.push(gateway);
  return gateway;
}

async function send(gateway: PaidGateway): Promise<string> {
  const response = await gateway.call("/v1/chat/completions", {
    model: "paid",
    messages: [{ role: "user", content: "Hello" }],
  });
  expect(response.status).toBe(200);
  return response.headers.get("x-request-id") ?? "";
}

async function archiveLog(server: PostgresServer): Promise<void> {
  const [row] = await server.run("SELECT pg_walfile_name(pg_switch_wal()) AS file");
  const file = String(row?.file);
  await eventually(() => readdirSync(join(server.folder, "wal")).includes(file));
}

test("a database is restored to the moment before a mistake, and its ledger is complete", async () => {
  const server = await PostgresServer.create((root) => ({
    archive_mode: "on",
    archive_command: `test ! -f ${root}/wal/%f && cp %p ${root}/wal/%f`,
  }));
  servers.push(server);
  const archive = server.makeFolder("wal");
  await server.run("CREATE DATABASE gateway");
  const gateway = await start(server);
  const before = [await send(gateway), await send(gateway)];

  const restored = server.copy();
  servers.push(restored);

  before.push(await send(gateway), await send(gateway));
  const { balanceNano } = await gateway.records.wallet();
  const [moment] = await server.run("SELECT clock_timestamp()::text AS time");
  const targetTime = String(moment?.time);

  const after = await send(gateway);
  await gateway.installation.db.sql`UPDATE wallet SET balance_nano = 1`;
  await archiveLog(server);
  await gateway.stop();
  await server.stop("immediate");

  restored.configure({
    restore_command: `cp ${archive}/%f %p`,
    recovery_target_time: targetTime,
    recovery_target_action: "promote",
  });
  restored.writeFile("recovery.signal", "");
  await restored.start();
  await eventually(async () => {
    const [row] = await restored.run("SELECT pg_is_in_recovery() AS recovers");
    return row?.recovers === false;
  });

  const db = await openDb(restored.url("gateway"));
  try {
    const records = openBillingRecords(db);
    expect((await records.wallet()).balanceNano).toBe(balanceNano);
    for (const id of before) expect(await records.charge(id)).not.toBeNull();
    expect(await records.findRow(after)).toBeNull();
    await records.expectReconciled();
  } finally {
    await db.close();
  }
  const audit = await runCommand(["audit"], {
    folder,
    env: { DATABASE_URL: restored.url("gateway"), ...environment },
  });
  expect([audit.code, audit.output]).toEqual([0, audit.output]);

  const next = await start(restored);
  await send(next);
  await next.records.expectReconciled();
});
