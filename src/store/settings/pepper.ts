/** The pepper: the secret key for the digests of callers' secrets. */

import { randomBytes as cryptoRandomBytes } from "node:crypto";
import type { Keyring, RandomBytes } from "../../secrets/keyring.ts";
import { SealError, seal, unseal } from "../../secrets/seal.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readSetting } from "./settings.ts";

const PEPPER_BYTES = 32;

export const PEPPER_SETTING = "pepper";
export const PEPPER_BINDING = "setting|pepper|value";

/** Loads the pepper, created on the first start. Another one would invalidate every key. */
export async function loadPepper(
  db: Db,
  keyring: Keyring,
  randomBytes: RandomBytes = cryptoRandomBytes,
): Promise<Uint8Array> {
  return (await readPepper(db, keyring)) ?? openPepper(keyring, await createPepper(db, keyring, randomBytes));
}

/** Null before the first start has created it. */
export async function readPepper(db: Db, keyring: Keyring): Promise<Uint8Array | null> {
  const sealed = await readSetting(db, PEPPER_SETTING);
  return sealed === null ? null : openPepper(keyring, sealed);
}

function openPepper(keyring: Keyring, sealed: string): Uint8Array {
  const pepper = Buffer.from(unsealPepper(keyring, sealed), "base64");
  if (pepper.length !== PEPPER_BYTES) throw new SealError("corrupt", "The pepper has an invalid length.");
  return new Uint8Array(pepper);
}

function unsealPepper(keyring: Keyring, sealed: string): string {
  try {
    return unseal(keyring, PEPPER_BINDING, sealed);
  } catch (error) {
    if (!(error instanceof SealError) || error.reason !== "unknown_key") throw error;
    throw new SealError(
      "unknown_key",
      `The secrets of this database were encrypted with another master key. ${error.message} It is a line of master.key or of MODEL_GATEWAY_MASTER_KEY.`,
    );
  }
}

async function createPepper(db: Db, keyring: Keyring, randomBytes: RandomBytes): Promise<string> {
  return transaction(db, async (tx) => {
    const keys = await tx.sql`SELECT id FROM api_key UNION ALL SELECT digest FROM redeem_code LIMIT 1`;
    if (keys.length > 0) {
      throw new Error(
        "The database has keys or redeem codes, but not the pepper of their digests. Restore the setting from a backup.",
      );
    }
    const sealed = seal(
      keyring,
      PEPPER_BINDING,
      Buffer.from(randomBytes(PEPPER_BYTES)).toString("base64"),
      randomBytes,
    );
    // If two nodes start for the first time together, the second uses the pepper of the first.
    await tx.sql`INSERT INTO setting (name, value) VALUES (${PEPPER_SETTING}, ${sealed}) ON CONFLICT (name) DO NOTHING`;
    return (await readSetting(tx, PEPPER_SETTING)) ?? sealed;
  });
}
