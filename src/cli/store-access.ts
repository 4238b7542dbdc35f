/** Opens the store for commands. */

import { MoneyRefusedError } from "../billing/operations/refusal.ts";
import { readSettings, type Settings } from "../config/installation/environment.ts";
import {
  hasStore,
  type Installation,
  NoInstallation,
  openPresent,
} from "../config/installation/installation.ts";
import { ChangedMeanwhile } from "../config/plan/apply.ts";
import type { UserRecord } from "../records.ts";
import { KeyringError } from "../secrets/keyring.ts";
import { SealError } from "../secrets/seal.ts";
import { StoreConflict } from "../store/engine/conflict.ts";
import type { Db } from "../store/engine/db.ts";
import { SchemaTooNew } from "../store/engine/migrate.ts";
import { findUserByEmail } from "../store/identity/users.ts";
import { Failure, fail, type Input, misuse } from "./command.ts";

export function readCommandSettings(input: Input): Settings {
  const result = readSettings({ flags: { data: input.text("data") }, environment: input.environment });
  return result.ok ? result.settings : misuse(result.problems.join("\n"), WRONG_SETTING);
}

export const WRONG_SETTING = "Correct the flag or the variable.";

/**
 * Opens the store for one command, also while a server runs on it, and closes it afterwards. Most commands need an
 * existing installation; `open` is for those that do not.
 */
export async function withInstallation<T>(
  input: Input,
  work: (installation: Installation) => Promise<T>,
  open: typeof openPresent = openPresent,
): Promise<T> {
  const settings = readCommandSettings(input);
  let installation: Installation;
  try {
    installation = await open(settings, input.environment, input.terminal.remark);
  } catch (error) {
    if (error instanceof NoInstallation) fail(error.message, error.hint);
    throw isForOperators(error) ? error : new Failure(...storeFailure(settings, error), 1);
  }
  try {
    return await work(installation);
  } finally {
    await installation.db.close();
  }
}

/** Whether no installation exists at the location of the command. */
export function isUnfurnished(settings: Settings): boolean {
  try {
    return !hasStore(settings);
  } catch (error) {
    throw new Failure(...storeFailure(settings, error), 1);
  }
}

export async function needUser(db: Db, email: string): Promise<UserRecord> {
  const user = await findUserByEmail(db, email);
  return user ?? fail(`There is no user "${email}".`, "Name the user in a configuration file and apply it.");
}

/** Errors whose message is written for operators. */
export function isForOperators(error: unknown): error is Error {
  return (
    error instanceof Failure ||
    error instanceof KeyringError ||
    error instanceof SealError ||
    error instanceof SchemaTooNew ||
    error instanceof StoreConflict ||
    error instanceof MoneyRefusedError ||
    error instanceof ChangedMeanwhile
  );
}

export function storeFailure(settings: Settings, error: unknown): [message: string, hint: string] {
  const code = typeof error === "object" && error !== null && "code" in error ? ` (${error.code})` : "";
  return settings.databaseUrl.startsWith("sqlite:")
    ? [
        `The store in ${settings.dataDir} cannot be opened${code}.`,
        "Check that the folder exists, belongs to you and can be written, and that the disk is not full.",
      ]
    : [
        `The database of DATABASE_URL cannot be reached${code}.`,
        "Check that it runs, and the host, user, password and database in DATABASE_URL.",
      ];
}
