import { randomBytes as cryptoRandomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { type Clock, type NewId, systemClock, uuidV7 } from "../clock.ts";
import { openDigester } from "../secrets/api-key.ts";
import { type Keyring, openKeyring, type RandomBytes } from "../secrets/keyring.ts";
import { type Db, openDb } from "../store/db.ts";
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

/** Makes what is missing: folder, master key, tables, pepper. */
export async function openInstallation(
  settings: Settings,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Installation> {
  mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 });
  // Empty counts as not set, as for every other variable.
  const fromEnv = environment.MODEL_GATEWAY_MASTER_KEY || undefined;
  const keyring = openKeyring({ file: settings.masterKeyFile, fromEnv });
  const db = await openDb(settings.databaseUrl);
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
