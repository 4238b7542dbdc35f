import { MoneyRefused } from "../billing/refused.ts";
import { ChangedMeanwhile } from "../config/apply.ts";
import { readSettings, type Settings } from "../config/environment.ts";
import { type Installation, openInstallation, openToLook } from "../config/installation.ts";
import type { UserRecord } from "../records.ts";
import { KeyringError } from "../secrets/keyring.ts";
import { SealError } from "../secrets/seal.ts";
import { StoreConflict } from "../store/conflict.ts";
import type { Db } from "../store/db.ts";
import { SchemaTooNew } from "../store/migrate.ts";
import { findUserByEmail } from "../store/users.ts";
import { Failure, fail, type Input } from "./command.ts";

export function settingsOf(input: Input): Settings {
  const result = readSettings({ flags: { data: input.text("data") }, environment: input.environment });
  return result.ok ? result.settings : fail(result.problems.join("\n"));
}

type Opener = typeof openInstallation;

/** A dry run leaves nothing behind, not even an empty store. */
export function openerOf(input: Input): Opener {
  return input.flag("dry-run") ? openToLook : openInstallation;
}

/** Opens the store for one command, while a server may be running on it, and closes it again. */
export async function withInstallation<T>(
  input: Input,
  work: (installation: Installation) => Promise<T>,
  open: Opener = openInstallation,
): Promise<T> {
  const settings = settingsOf(input);
  let installation: Installation;
  try {
    installation = await open(settings, input.environment);
  } catch (error) {
    throw isForOperators(error) ? error : new Failure(...storeFailure(settings, error), 1);
  }
  try {
    return await work(installation);
  } finally {
    await installation.db.close();
  }
}

export async function needUser(db: Db, email: string): Promise<UserRecord> {
  const user = await findUserByEmail(db, email);
  return user ?? fail(`There is no user "${email}".`, "Name the user in a configuration file and apply it.");
}

/** Errors whose message was written to be read by an operator. */
export function isForOperators(error: unknown): error is Error {
  return (
    error instanceof Failure ||
    error instanceof KeyringError ||
    error instanceof SealError ||
    error instanceof SchemaTooNew ||
    error instanceof StoreConflict ||
    error instanceof MoneyRefused ||
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
