import { randomBytes as cryptoRandomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { type Clock, type NewId, systemClock, uuidV7 } from "../clock.ts";
import { openDigester } from "../secrets/api-key.ts";
import { type Keyring, openKeyring, openPassingKeyring, type RandomBytes } from "../secrets/keyring.ts";
import { type Db, openDb, sqlitePathOf } from "../store/db.ts";
import { migrate } from "../store/migrate.ts";
import { loadPepper } from "../store/pepper.ts";
import type { Settings } from "./environment.ts";

/** An opened store with the keys to its secrets: what every command and the server begin with. */
export interface Installation {
  settings: Settings;
  db: Db;
  keyring: Keyring;
  /** A caller's secret → the digest it is known by. */
  digest(secret: string): string;
  clock: Clock;
  newId: NewId;
  randomBytes: RandomBytes;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Empty counts as not set, as for every other variable. */
const masterKeyIn = (environment: Environment) => environment.MODEL_GATEWAY_MASTER_KEY || undefined;

/** Makes what is missing: folder, master key, tables, pepper. */
export async function openInstallation(settings: Settings, environment: Environment): Promise<Installation> {
  mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
  const keyring = openKeyring({ file: settings.masterKeyFile, fromEnv: masterKeyIn(environment) });
  return furnish(settings, keyring, await openDb(settings.databaseUrl));
}

/** For whoever changes nothing: where there is no store yet it is an empty one in memory, and no file is made. */
export async function openToLook(settings: Settings, environment: Environment): Promise<Installation> {
  const path = sqlitePathOf(settings.databaseUrl);
  if (path === null || existsSync(path)) return openInstallation(settings, environment);
  const file = settings.masterKeyFile;
  const fromEnv = masterKeyIn(environment);
  const hasKey = fromEnv !== undefined || existsSync(file);
  const keyring = hasKey ? openKeyring({ file, fromEnv }) : openPassingKeyring();
  return furnish(settings, keyring, await openDb("sqlite::memory:"));
}

async function furnish(settings: Settings, keyring: Keyring, db: Db): Promise<Installation> {
  try {
    await migrate(db);
    const digest = openDigester(await loadPepper(db, keyring));
    return {
      settings,
      db,
      keyring,
      digest,
      clock: systemClock,
      newId: uuidV7,
      randomBytes: cryptoRandomBytes,
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}
