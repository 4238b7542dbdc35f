/** `model-gateway migrate-store`: moves an installation from SQLite to PostgreSQL. */

import { reconcileLedger } from "../billing/maintenance/reconciliation.ts";
import type { Settings } from "../config/installation/environment.ts";
import type { Installation } from "../config/installation/installation.ts";
import { limits } from "../config/product-limits.ts";
import { appendChange } from "../store/change-log/change-log.ts";
import {
  beginCopy,
  type CopiedTable,
  compareTable,
  copyTable,
  endCopy,
  hasBegunCopy,
  listCopiedTables,
  StoreCopyError,
} from "../store/engine/copy-store.ts";
import { type Db, openDb, parseSqlitePath } from "../store/engine/db.ts";
import { LockHeld, lockFolder } from "../store/engine/folder-lock.ts";
import { hasVersions, migrate } from "../store/engine/migrate.ts";
import { findingText } from "./audit.ts";
import { type Command, DATA_OPTION, fail, type Input } from "./command.ts";
import { operator } from "./operator.ts";
import { storeFailure, withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

const FINDINGS_MAX = 20;

export const migrateStore: Command = {
  words: "migrate-store",
  summary: "Move the installation from SQLite to PostgreSQL",
  changes: "store",
  about: `Stop the server first. Copies every row into an empty PostgreSQL database, compares both row by row, and audits the
ledger before and after. If it is interrupted, run it again: it continues. The SQLite database stays unchanged.`,
  options: {
    to: { value: "URL", about: "the empty database: postgres://user:password@host/database", required: true },
    data: DATA_OPTION,
  },
  run: (input) => withInstallation(input, (installation) => moveInstallation(input, installation)),
};

async function moveInstallation(input: Input, installation: Installation): Promise<number> {
  const { db: source, settings } = installation;
  const url = input.text("to") ?? "";
  const path = parseSqlitePath(settings.databaseUrl);
  if (path === null)
    fail("The installation already uses PostgreSQL.", "DATABASE_URL selects the database to move.");
  if (!/^postgres(ql)?:\/\/./.test(url))
    fail("--to must be a PostgreSQL database.", "For example: --to postgres://user:password@host/database");
  const lock = takeLock(settings.dataDir, path);
  try {
    await requireSettled(source);
    await audit(input, source, "Before the copy");
    const target = await openTarget({ ...settings, databaseUrl: url });
    try {
      return await copyInstallation(input, installation, target);
    } catch (error) {
      if (error instanceof StoreCopyError) fail(error.message);
      throw error;
    } finally {
      await target.close();
    }
  } finally {
    lock.release();
  }
}

function takeLock(dataDir: string, path: string): { release(): void } {
  try {
    return lockFolder(dataDir, path);
  } catch (error) {
    if (!(error instanceof LockHeld)) throw error;
    fail(
      "The server of this installation is running.",
      "Stop it first, so that no request is missing in the copy.",
    );
  }
}

/** A process that was killed has left requests in its journal, which only a start books. */
async function requireSettled(source: Db): Promise<void> {
  const [row] = await source.sql`
    SELECT (SELECT COUNT(*) FROM incarnation) + (SELECT COUNT(*) FROM hold) + (SELECT COUNT(*) FROM lease) AS open`;
  if (Number(row?.open) > 0)
    fail(
      "The server was not stopped in order, and some requests are not settled yet.",
      "Start it, stop it with Ctrl+C or SIGTERM, and run this command again.",
    );
}

async function openTarget(settings: Settings): Promise<Db> {
  const target = await openDb(settings.databaseUrl, { workload: "maintenance" }).catch((error: unknown) => {
    const [message] = storeFailure(settings, error);
    return fail(
      message.replace("DATABASE_URL", "--to"),
      "Check that the server is running, and check the address.",
    );
  });
  if ((await hasVersions(target)) && !(await hasBegunCopy(target))) {
    await target.close();
    fail(
      "The database of --to already contains an installation.",
      "Create an empty database and use its address.",
    );
  }
  // First, so that an interrupted migration counts as begun.
  await beginCopy(target);
  await migrate(target);
  return target;
}

async function copyInstallation(
  input: Input,
  { db: source, clock, settings }: Installation,
  target: Db,
): Promise<number> {
  const { print, paint } = input.terminal;
  const tables = await listCopiedTables(source);
  const rows = await forEachTable(tables, (table) => copyTable(source, target, table));
  print(`${paint.green("✓")} Copied ${count(rows, "row")} of ${tables.length} tables.`);
  await forEachTable(tables, (table) => compareTable(source, target, table));
  print(`${paint.green("✓")} Compared every value of both databases: no difference.`);
  await audit(input, target, "After the copy");
  await appendChange(target, {
    action: "store.migrate",
    target: "database",
    changes: [{ field: "rows", from: null, to: String(rows) }],
    atMs: clock.nowMs(),
    actor: operator(),
    address: null,
  });
  await endCopy(target);
  print("");
  print("Start the server with DATABASE_URL set to the new database, and the same master key:");
  print(
    input.environment.MODEL_GATEWAY_MASTER_KEY
      ? "MODEL_GATEWAY_MASTER_KEY stays as it is, and every further node needs it."
      : `${settings.masterKeyFile} stays as it is. Further nodes need its content as MODEL_GATEWAY_MASTER_KEY.`,
  );
  print("Do not use the SQLite database any more: requests that it serves are missing in the new one.");
  return 0;
}

async function forEachTable(
  tables: readonly CopiedTable[],
  work: (table: CopiedTable) => Promise<number>,
): Promise<number> {
  let rows = 0;
  for (const table of tables) rows += await work(table);
  return rows;
}

async function audit({ terminal: { print, paint } }: Input, db: Db, when: string): Promise<void> {
  const { findings, counts } = await reconcileLedger(db, {
    nowMs: Date.now(),
    holdAgeMaxMs: limits.holdAgeMaxMs,
    findingsMax: FINDINGS_MAX,
  });
  for (const finding of findings) print(`${paint.red("✗")} ${findingText(finding)}`);
  if (findings.length > 0)
    fail(
      `${when}, the audit found ${count(findings.length, "fault")}.`,
      "The copy is not used. Repair the ledger first.",
    );
  print(
    `${paint.green("✓")} ${when}: the ledger agrees (${count(counts.wallets, "wallet")}, ${count(counts.rows, "request")}).`,
  );
}
