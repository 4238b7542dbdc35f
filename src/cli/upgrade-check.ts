/** `model-gateway upgrade-check`: what the first start of this version would change in a database. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { canCopyStore, copyStore } from "../store/engine/backup.ts";
import { type Db, openDb } from "../store/engine/db.ts";
import {
  changesAhead,
  hasVersions,
  migrate,
  readSchemaVersion,
  readUpgradeImpact,
} from "../store/engine/migrate.ts";
import { VERSION } from "../version.ts";
import { type CommandDefinition, DATA_OPTION, Failure, fail, type Input, JSON_OPTION } from "./command.ts";
import { printJson } from "./output.ts";
import { isForOperators, isInstallationMissing, readCommandSettings, storeFailure } from "./store-access.ts";
import { count } from "./terminal.ts";

interface UpgradeReport {
  version: string;
  schema: { present: number; needed: number };
  /** What operators of a large database should know, a sentence each. */
  notes: readonly string[];
  /** Measured on a copy; null if no copy was migrated. */
  trial_seconds: number | null;
  /** All nodes of the earlier version must be stopped first. */
  needs_stop: boolean;
  rollback: "possible" | "needs_backup";
}

export const upgradeCheck: CommandDefinition = {
  changes: "nothing",
  about: `Run it with the new version before you replace the old one, also while the old one runs. Changes nothing.
With --trial, a copy of a SQLite database is migrated in the data folder and deleted: it needs free space for two
copies and shows how long the migration takes.`,
  options: {
    trial: { about: "migrate a copy and measure the time (SQLite)" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  async run(input) {
    const report = await inspect(input);
    if (input.flag("json")) printJson(input, report);
    else printReport(report, input);
  },
};

async function inspect(input: Input): Promise<UpgradeReport> {
  const settings = readCommandSettings(input);
  // Opening a SQLite file that does not exist would create it.
  if (isInstallationMissing(settings)) failWithoutInstallation(settings.dataDir);
  let db: Db | null = null;
  try {
    db = await openDb(settings.databaseUrl, { access: "read" });
    if (!(await hasVersions(db))) failWithoutInstallation(settings.dataDir);
    const ahead = await changesAhead(db);
    const present = await readSchemaVersion(db);
    const { isReversible, needsStop } = await readUpgradeImpact(db);
    const isTrial = ahead !== null && input.flag("trial");
    return {
      version: VERSION,
      schema: { present, needed: ahead?.to ?? present },
      notes: ahead?.takes ?? [],
      trial_seconds: isTrial ? await measureMigration(db, settings.dataDir) : null,
      needs_stop: needsStop,
      rollback: isReversible ? "possible" : "needs_backup",
    };
  } catch (error) {
    throw isForOperators(error) ? error : new Failure(...storeFailure(settings, error), 1);
  } finally {
    await db?.close();
  }
}

function failWithoutInstallation(dataDir: string): never {
  fail(
    `No installation exists in ${dataDir}.`,
    "Set the data folder of the server with --data FOLDER or MODEL_GATEWAY_DATA, and check DATABASE_URL.",
  );
}

/** Null for PostgreSQL, whose migration would lock the tables of the running version. */
async function measureMigration(db: Db, folder: string): Promise<number | null> {
  if (!canCopyStore(db)) return null;
  const file = join(folder, `upgrade-trial-${process.pid}.db`);
  try {
    await copyStore(db, file);
    const copy = await openDb(`sqlite:${file}`);
    const startMs = performance.now();
    await migrate(copy).finally(() => copy.close());
    return Math.round(performance.now() - startMs) / 1_000;
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
  }
}

function printReport(report: UpgradeReport, input: Input): void {
  const { version, schema, notes, trial_seconds, needs_stop, rollback } = report;
  const { print } = input.terminal;
  const { present, needed } = schema;
  if (present === needed) {
    print(`Version ${version} changes nothing in the database (schema ${present}).`);
  } else {
    print(
      `Version ${version} migrates the database from schema ${present} to ${needed}: ${count(needed - present, "migration")}.`,
    );
    for (const note of notes) print(note);
    if (trial_seconds !== null) print(`The migration of a copy took ${trial_seconds} s.`);
    else print("Migrations without a note take less than a second.");
    print(
      needs_stop
        ? "Stop all nodes of the earlier version before the first start."
        : "Nodes of the earlier version can keep running while the first node of this version starts.",
    );
  }
  print(
    rollback === "possible"
      ? "You can go back to the earlier version at any time."
      : `To go back you need a backup: the earlier version rejects the migrated database. Back up first: ${input.command("backup", "FILE")}`,
  );
}
