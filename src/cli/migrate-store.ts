/** `model-gateway migrate-store`: moves an installation between SQLite and PostgreSQL. */

import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { reconcileLedger } from "../billing/maintenance/reconciliation.ts";
import type { Settings } from "../config/installation/environment.ts";
import { type Installation, openToMove } from "../config/installation/installation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { appendChange } from "../store/audit-log/audit-log.ts";
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
import { type Db, openDb, parseSqlitePath, SQLITE_SCHEME, transaction } from "../store/engine/db.ts";
import { isSharedServer } from "../store/engine/dialect.ts";
import { LockHeld, lockFolder } from "../store/engine/folder-lock.ts";
import { hasVersions, migrate } from "../store/engine/migrate.ts";
import { clearMove, describeMove, markMove, readMove, type StoreMove } from "../store/engine/moved-store.ts";
import { SET_ASIDE } from "../store/money/set-aside-holds.ts";
import { canPartitionUsageRows, createPartitionsAhead } from "../store/usage/usage-partitions.ts";
import { resumeFeed } from "../store/usage-feed/feed.ts";
import { findingText } from "./audit.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, misuse } from "./command.ts";
import { operator } from "./operator.ts";
import { storeFailure, withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

const FINDINGS_MAX = 20;

export const migrateStore: CommandDefinition = {
  changes: "store",
  about: `Stop all servers first. Copies every row into an empty database, compares both row by row, and audits the ledger
before and after. If it is interrupted, run it again: it continues. The old database is marked as moved: no server starts
on it, and no command changes it. To move back, keep DATABASE_URL and use --to ${SQLITE_SCHEME}.`,
  options: {
    to: {
      value: "URL",
      about: `the new database: postgres://user:password@host/database (empty), or ${SQLITE_SCHEME} for the data folder`,
    },
    cancel: { about: "use the old database again after a move that was interrupted" },
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(
      input,
      (installation) =>
        input.flag("cancel") ? cancelMove(input, installation) : moveInstallation(input, installation),
      openToMove,
    ),
};

async function cancelMove(input: Input, { db }: Installation): Promise<number> {
  const move = await readMove(db);
  if (move === null) fail("No move of this database has begun.");
  if (move.state === "moved") fail(describeMove(move), "A complete move cannot be cancelled: move back.");
  await clearMove(db);
  input.terminal.print("This database is in use again. Delete the incomplete copy.");
  return 0;
}

/** No other process uses the new database yet. */
const UNSHARED = { check: async () => {} };

/** Where an installation moves to. */
interface MoveTarget {
  readonly url: string;
  /** For the mark of the old database, without a password. */
  readonly name: string;
  /** Of whichever database is SQLite. */
  readonly sqlitePath: string;
}

function readTarget(input: Input, { databaseUrl, dataDir }: Settings): MoveTarget {
  const to = input.text("to") ?? misuse("--to URL is missing.", "See: --help");
  const sourcePath = parseSqlitePath(databaseUrl);
  if (sourcePath === null) {
    if (to !== SQLITE_SCHEME && parseSqlitePath(to) === null)
      fail(
        "The installation already uses PostgreSQL.",
        `To move it to SQLite: --to ${SQLITE_SCHEME}. DATABASE_URL selects the database to move.`,
      );
    const path = to === SQLITE_SCHEME ? join(dataDir, "gateway.db") : resolve(parseSqlitePath(to) ?? "");
    return { url: `sqlite:${path}`, name: path, sqlitePath: path };
  }
  if (to === SQLITE_SCHEME)
    fail("The installation already uses SQLite.", "To move it back from PostgreSQL, set DATABASE_URL to it.");
  if (!/^postgres(ql)?:\/\/./.test(to))
    fail("--to must be a PostgreSQL database.", "For example: --to postgres://user:password@host/database");
  const { host, pathname } = new URL(to);
  return { url: to, name: `postgres://${host}${pathname}`, sqlitePath: sourcePath };
}

async function moveInstallation(input: Input, installation: Installation): Promise<number> {
  const { db: source, settings, clock } = installation;
  const to = readTarget(input, settings);
  const lock = takeLock(settings.dataDir, to.sqlitePath);
  try {
    const begun = await readMove(source);
    if (begun !== null && begun.target !== to.name) fail(describeMove(begun));
    await requireSettled(source);
    const target = await openTarget({ ...settings, databaseUrl: to.url });
    try {
      const move: StoreMove = begun ?? { state: "moving", target: to.name, atMs: clock.nowMs() };
      if (!(await markMove(source, move))) failRunning();
      // Before the copy: rows in the default partition would be moved by the first start.
      if (await canPartitionUsageRows(target))
        await createPartitionsAhead({ db: target, nowMs: clock.nowMs(), lease: UNSHARED }, null);
      const rows = await copyInstallation(input, installation, target);
      await markMove(source, { ...move, state: "moved" });
      await completeTarget(installation, target, rows);
      printNextSteps(input, installation);
      return 0;
    } catch (error) {
      // The old database stays in use. A process that is killed instead leaves the mark, and the command continues.
      if (begun === null) await clearMove(source);
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
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    return lockFolder(dataDir, path);
  } catch (error) {
    if (!(error instanceof LockHeld)) throw error;
    return failRunning();
  }
}

function failRunning(): never {
  fail(
    "The server of this installation is running.",
    "Stop it first, so that no request is missing in the copy.",
  );
}

/** A process that was killed has left requests in its journal, which only a start books. */
async function requireSettled(source: Db): Promise<void> {
  const [row] = await source.sql`
    SELECT (SELECT COUNT(*) FROM process) + (SELECT COUNT(*) FROM hold WHERE process_id <> ${SET_ASIDE}) + (SELECT COUNT(*) FROM wallet_reservation) AS open`;
  if (Number(row?.open) > 0)
    fail(
      "A server runs on this database, or it was not stopped in order and some requests are not settled yet.",
      "Start it, stop it with Ctrl+C or SIGTERM, and run this command again.",
    );
}

async function openTarget(settings: Settings): Promise<Db> {
  const path = parseSqlitePath(settings.databaseUrl);
  if (path !== null && existsSync(path)) await setAsideMoved(path);
  const target = await openDb(settings.databaseUrl, { workload: "maintenance" }).catch((error: unknown) => {
    const [message, hint] = storeFailure(settings, error);
    return fail(message, hint.replace("DATABASE_URL", "--to"));
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

/** The database that the installation came from is kept under another name. */
async function setAsideMoved(path: string): Promise<void> {
  const old = await openDb(`sqlite:${path}`);
  const move = await readMove(old);
  await old.close();
  if (move?.state !== "moved") return;
  renameSync(path, `${path}.moved-${new Date(move.atMs).toISOString().slice(0, 19).replaceAll(":", "")}`);
  for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix, { force: true });
}

/** Returns the number of rows. */
async function copyInstallation(input: Input, { db: source }: Installation, target: Db): Promise<number> {
  const { print, paint } = input.terminal;
  await audit(input, source, "Before the copy");
  const tables = await listCopiedTables(isSharedServer(source) ? target : source);
  const rows = await forEachTable(tables, (table) => copyTable(source, target, table));
  print(`${paint.green("✓")} Copied ${count(rows, "row")} of ${tables.length} tables.`);
  await forEachTable(tables, (table) => compareTable(source, target, table));
  print(`${paint.green("✓")} Compared every value of both databases: no difference.`);
  await audit(input, target, "After the copy");
  return rows;
}

/** At once: a command that was interrupted before compares both databases again. */
function completeTarget({ clock }: Installation, target: Db, rows: number): Promise<void> {
  return transaction(target, async (tx) => {
    await resumeFeed(tx);
    await appendChange(tx, {
      action: "store.migrate",
      target: "database",
      changes: [{ field: "rows", from: null, to: String(rows) }],
      atMs: clock.nowMs(),
      actor: operator(),
      address: null,
    });
    await endCopy(tx);
  });
}

function printNextSteps(input: Input, { db, settings }: Installation): void {
  const { print } = input.terminal;
  print("");
  if (isSharedServer(db)) {
    print("Remove DATABASE_URL, and start the server on the data folder with the same master key.");
  } else {
    print("Start the server with DATABASE_URL set to the new database, and the same master key:");
    print(
      input.environment.MODEL_GATEWAY_MASTER_KEY
        ? "MODEL_GATEWAY_MASTER_KEY stays as it is, and every further node needs it."
        : `${settings.masterKeyFile} stays as it is. Further nodes need its content as MODEL_GATEWAY_MASTER_KEY.`,
    );
  }
  print("The old database is marked as moved: no server starts on it.");
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
