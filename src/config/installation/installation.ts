/** Opens an installation's database and the keys to its secrets. Only `openInstallation` migrates it. */

import { randomBytes as cryptoRandomBytes } from "node:crypto";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { type Clock, type NewId, systemClock, uuidV7 } from "../../base/clock.ts";
import { openDigester } from "../../secrets/api-key.ts";
import {
  deriveContentKeyring,
  type Keyring,
  openKeyring,
  openTemporaryKeyring,
  type RandomBytes,
} from "../../secrets/keyring.ts";
import { type Db, openDb, parseSqlitePath, type StoreAccess } from "../../store/engine/db.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { changesAhead, hasVersions, migrate, requireCurrentSchema } from "../../store/engine/migrate.ts";
import { requireUnmoved } from "../../store/engine/moved-store.ts";
import { loadPepper, readPepper } from "../../store/settings/pepper.ts";
import type { Settings } from "./environment.ts";

/** An open database with the keys to its secrets. */
export interface Installation {
  settings: Settings;
  /** The value of MODEL_GATEWAY_MASTER_KEY. */
  environmentKey: string | undefined;
  db: Db;
  keyring: Keyring;
  /** Seals stored responses. */
  contentKeyring: Keyring;
  /** Computes the digest under which the secret of a key is stored. */
  digest(secret: string): string;
  clock: Clock;
  newId: NewId;
  randomBytes: RandomBytes;
}

/** What another thread needs to open the same installation. */
export type InstallationSource = Pick<Installation, "settings" | "environmentKey">;

/** Prints a progress message for a waiting operator. */
type ReportProgress = (text: string) => void;
const ignoreProgress: ReportProgress = () => {};

type Environment = Readonly<Record<string, string | undefined>>;

/** An empty value counts as not set, as for every other variable. */
const readMasterKey = (environment: Environment) => environment.MODEL_GATEWAY_MASTER_KEY || undefined;

/**
 * Creates what is missing: directory, tables, pepper, and the master key, and migrates an older schema. No master key
 * is created if the database was sealed with another one.
 */
export async function openInstallation(
  settings: Settings,
  environment: Environment,
  reportProgress: ReportProgress = ignoreProgress,
): Promise<Installation> {
  mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
  const file = settings.masterKeyFile;
  const fromEnv = readMasterKey(environment);
  const hasKey = fromEnv !== undefined || pathExists(file);
  // A wrong key must be reported before anything is created.
  const presentKeyring = hasKey ? openKeyring({ file, fromEnv }) : null;
  const db = await openDb(settings.databaseUrl, { processes: settings.process?.count });
  try {
    if (presentKeyring === null && (await hasVersions(db))) throw masterKeyMissing(file);
    await requireUnmoved(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  const keyring = presentKeyring ?? openKeyring({ file, fromEnv });
  return createInstallation(settings, { keyring, environmentKey: fromEnv, db }, reportProgress);
}

/** There is no installation at this location. A mistyped directory must not pass for an empty installation. */
export class NoInstallationError extends Error {
  override readonly name = "NoInstallation";
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.hint = hint;
  }
}

function masterKeyMissing(file: string): NoInstallationError {
  return new NoInstallationError(
    `The master key ${file} is missing.`,
    `${DATA_DIR_HINT} If the folder is correct, restore the key from its backup or set MODEL_GATEWAY_MASTER_KEY: a new key cannot decrypt the stored secrets.`,
  );
}

const DATA_DIR_HINT = "Set the data folder of the server with --data FOLDER or MODEL_GATEWAY_DATA.";

/**
 * Opens an existing installation, and creates nothing. Throws `NoInstallation`, `SchemaTooOld`, and `StoreMoved` for
 * one that was moved to another store.
 */
export async function openPresent(settings: Settings, environment: Environment): Promise<Installation> {
  const installation = await openToMove(settings, environment);
  try {
    await requireUnmoved(installation.db);
    return installation;
  } catch (error) {
    await installation.db.close();
    throw error;
  }
}

/** As `openPresent`, also if a move has begun or is complete. */
export const openToMove = (settings: Settings, environment: Environment) =>
  openExisting(settings, environment, "write");

/** As `openPresent`, but the database rejects every write. */
export const openToRead = (settings: Settings, environment: Environment) =>
  openExisting(settings, environment, "read");

/** Creates a new installation where none exists, and never migrates an existing one. */
export async function openOrCreate(
  settings: Settings,
  environment: Environment,
  reportProgress: ReportProgress = ignoreProgress,
): Promise<Installation> {
  return (await isStoreEmpty(settings))
    ? openInstallation(settings, environment, reportProgress)
    : openPresent(settings, environment);
}

/** Opens the installation to read it. Where none exists, opens an empty one in memory and creates no file. */
export async function openToPlan(settings: Settings, environment: Environment): Promise<Installation> {
  if (!(await isStoreEmpty(settings))) return openToRead(settings, environment);
  const file = settings.masterKeyFile;
  const fromEnv = readMasterKey(environment);
  const hasKey = fromEnv !== undefined || existsSync(file);
  const keyring = hasKey ? openKeyring({ file, fromEnv }) : openTemporaryKeyring();
  const db = await openDb("sqlite::memory:");
  return createInstallation(settings, { keyring, environmentKey: fromEnv, db }, ignoreProgress);
}

/** Opens an installation that this process has open, with another connection to its database. */
export async function openInThread({ settings, environmentKey }: InstallationSource): Promise<Installation> {
  const keyring = openKeyring({ file: settings.masterKeyFile, fromEnv: environmentKey });
  const db = await openDb(settings.databaseUrl, { processes: settings.process?.count });
  try {
    const pepper = await loadPepper(db, keyring);
    return assembleInstallation(settings, { db, keyring, pepper, environmentKey });
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** No other connection can open the database. */
export function isInMemory({ databaseUrl }: Settings): boolean {
  return parseSqlitePath(databaseUrl) === ":memory:";
}

async function isStoreEmpty(settings: Settings): Promise<boolean> {
  if (!hasStore(settings)) return true;
  const db = await openDb(settings.databaseUrl, { workload: "maintenance", access: "read" });
  try {
    return !(await hasVersions(db));
  } finally {
    await db.close();
  }
}

/** Opens the database without the keys to its secrets, whatever its schema is. Throws `NoInstallation`. */
export async function openStore(settings: Settings, access: StoreAccess): Promise<Db> {
  const path = parseSqlitePath(settings.databaseUrl);
  if (path !== null && !pathExists(path))
    throw new NoInstallationError(`No installation exists in ${dirname(path)}.`, DATA_DIR_HINT);
  const db = await openDb(settings.databaseUrl, { workload: "maintenance", access });
  if (await hasVersions(db)) return db;
  await db.close();
  throw new NoInstallationError(
    "The database is empty.",
    "The first start initializes it. Check that DATABASE_URL is correct.",
  );
}

async function openExisting(
  settings: Settings,
  environment: Environment,
  access: StoreAccess,
): Promise<Installation> {
  const db = await openStore(settings, access);
  try {
    const file = settings.masterKeyFile;
    const fromEnv = readMasterKey(environment);
    if (fromEnv === undefined && !pathExists(file)) throw masterKeyMissing(file);
    const keyring = openKeyring({ file, fromEnv });
    await requireCurrentSchema(db);
    const pepper = await readPepper(db, keyring);
    if (pepper === null)
      throw new NoInstallationError("The first start was not completed.", "Start the gateway once.");
    return assembleInstallation(settings, { db, keyring, pepper, environmentKey: fromEnv });
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** False if the SQLite file does not exist. Always true for a server, which has to be queried. */
export function hasStore({ databaseUrl }: Settings): boolean {
  const path = parseSqlitePath(databaseUrl);
  return path === null || pathExists(path);
}

/** Unlike `existsSync`, throws if the path may not be accessed. */
function pathExists(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw error;
  }
}

/** On a server, a migration needs a connection without the time-outs that protect requests. */
async function migrateStore(db: Db, databaseUrl: string): Promise<void> {
  if (!isSharedServer(db)) {
    await migrate(db);
    return;
  }
  const maintenanceDb = await openDb(databaseUrl, { workload: "maintenance" });
  try {
    await migrate(maintenanceDb);
  } finally {
    await maintenanceDb.close();
  }
}

async function createInstallation(
  settings: Settings,
  opened: Pick<Installation, "keyring" | "environmentKey" | "db">,
  reportProgress: ReportProgress,
): Promise<Installation> {
  const { keyring, db } = opened;
  try {
    const ahead = await changesAhead(db);
    if (ahead !== null) {
      const { from, to, takes } = ahead;
      reportProgress([`Migrating the database from schema ${from} to ${to}.`, ...takes].join(" "));
    }
    await migrateStore(db, settings.databaseUrl);
    const pepper = await loadPepper(db, keyring);
    return assembleInstallation(settings, { ...opened, pepper });
  } catch (error) {
    await db.close();
    throw error;
  }
}

function assembleInstallation(
  settings: Settings,
  { pepper, ...opened }: Pick<Installation, "keyring" | "environmentKey" | "db"> & { pepper: Uint8Array },
): Installation {
  return {
    ...opened,
    settings,
    contentKeyring: deriveContentKeyring(pepper),
    digest: openDigester(pepper),
    clock: systemClock,
    newId: uuidV7,
    randomBytes: cryptoRandomBytes,
  };
}
