/** Opens the store for commands. */

import { MoneyOperationRejected } from "../billing/operations/rejection.ts";
import { readSettings, type Settings } from "../config/installation/environment.ts";
import {
  hasStore,
  type Installation,
  NoInstallationError,
  openPresent,
  openStore,
  openToRead,
} from "../config/installation/installation.ts";
import { ConcurrentChangeError } from "../config/plan/concurrent-change.ts";
import type { UserRecord } from "../records/user.ts";
import { KeyringError } from "../secrets/keyring.ts";
import { SealError } from "../secrets/seal.ts";
import { StoreConflict } from "../store/engine/conflict.ts";
import type { Db } from "../store/engine/db.ts";
import { MigrationBlocked, ProgramTooOld, SchemaTooOld } from "../store/engine/migrate.ts";
import { findMove, StoreMoved } from "../store/engine/moved-store.ts";
import { StoreProblem } from "../store/engine/store-problem.ts";
import { findUserByEmail } from "../store/identity/users.ts";
import { Failure, fail, type Input, misuse } from "./command.ts";
import { PROGRAM } from "./program-name.ts";

export function readCommandSettings(input: Input): Settings {
  const result = readSettings({ flags: { data: input.text("data") }, environment: input.environment });
  return result.ok ? result.settings : misuse(result.problems.join("\n"), WRONG_SETTING);
}

export function moveHint({ move }: StoreMoved): string {
  if (move === null)
    return "Run the same `migrate-store` again on the database that it copies, and then use this one.";
  if (move.state === "moving")
    return "Run the same `migrate-store` again to complete the move, or `migrate-store --cancel` to use this database.";
  return /^postgres/.test(move.target)
    ? "Set DATABASE_URL to the new database. To move back: `migrate-store --to sqlite`, with DATABASE_URL set."
    : "Remove DATABASE_URL, and use the data folder of the new database.";
}

export const WRONG_SETTING = "Correct the flag or the variable.";

/** Opens an installation for a command. Only `start` and `migrate` use one that changes a schema. */
type OpenForCommand = (
  settings: Settings,
  environment: Input["environment"],
  reportProgress: (text: string) => void,
) => Promise<Installation>;

/**
 * Opens the store for one command, also while a server runs on it, and closes it afterwards. Most commands need an
 * existing installation; `open` is for those that do not.
 */
export async function withInstallation<T>(
  input: Input,
  work: (installation: Installation) => Promise<T>,
  open: OpenForCommand = input.isReading ? openToRead : openPresent,
): Promise<T> {
  const settings = readCommandSettings(input);
  const installation = await open(settings, input.environment, input.terminal.printNote).catch(
    (error: unknown) => failToOpen(input, settings, error),
  );
  try {
    if (input.isReading) await noteMove(input, installation.db);
    return await work(installation);
  } finally {
    await installation.db.close();
  }
}

/** Opens the database to read it, whatever its schema is, and closes it afterwards. */
export async function withStore<T>(
  input: Input,
  work: (db: Db, settings: Settings) => Promise<T>,
): Promise<T> {
  const settings = readCommandSettings(input);
  const db = await openStore(settings, "read").catch((error: unknown) => failToOpen(input, settings, error));
  try {
    return await work(db, settings);
  } finally {
    await db.close();
  }
}

/** A command that reads still works on a store that was moved: its output must not pass for the present state. */
async function noteMove({ terminal }: Input, db: Db): Promise<void> {
  const moved = await findMove(db);
  if (moved !== null) terminal.printNote(`Note: ${moved.message}\n${moveHint(moved)}\n`);
}

function failToOpen(input: Input, settings: Settings, error: unknown): never {
  if (error instanceof NoInstallationError) fail(error.message, error.hint);
  if (error instanceof SchemaTooOld)
    fail(
      error.message,
      `Run this command with the version that serves this database, or migrate it: ${input.command("migrate")}`,
    );
  if (error instanceof StoreMoved) fail(error.message, moveHint(error));
  throw isForOperators(error) ? error : new Failure(...storeFailure(settings, error), 1);
}

/** Whether no installation exists at the location of the command. */
export function isInstallationMissing(settings: Settings): boolean {
  try {
    return !hasStore(settings);
  } catch (error) {
    throw new Failure(...storeFailure(settings, error), 1);
  }
}

export async function requireUser(db: Db, email: string): Promise<UserRecord> {
  const user = await findUserByEmail(db, email);
  const hint = `Create the user: ${PROGRAM} users create ${email}. Or add the user to a configuration file and apply it.`;
  return user ?? fail(`User "${email}" does not exist.`, hint);
}

/** Errors whose message is written for operators. */
export function isForOperators(error: unknown): error is Error {
  return (
    error instanceof Failure ||
    error instanceof KeyringError ||
    error instanceof SealError ||
    error instanceof ProgramTooOld ||
    error instanceof SchemaTooOld ||
    error instanceof StoreMoved ||
    error instanceof MigrationBlocked ||
    error instanceof StoreConflict ||
    error instanceof MoneyOperationRejected ||
    error instanceof ConcurrentChangeError
  );
}

export function storeFailure(settings: Settings, error: unknown): [message: string, hint: string] {
  if (error instanceof StoreProblem) return [error.problem, error.todo];
  const code = typeof error === "object" && error !== null && "code" in error ? ` (${error.code})` : "";
  return settings.databaseUrl.startsWith("sqlite:")
    ? [
        `The database in ${settings.dataDir} cannot be opened${code}.`,
        "Check that the folder exists, that you own it and can write to it, and that the disk is not full.",
      ]
    : [
        `The database of DATABASE_URL cannot be reached${code}.`,
        "Check that the database server is running, and check the host, user, password and database in DATABASE_URL.",
      ];
}
