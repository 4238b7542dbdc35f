import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, kidOf, seal, unseal } from "../secrets/seal.ts";
import { type Db, transaction } from "./db.ts";
import { PEPPER_BINDING, PEPPER_SETTING } from "./pepper.ts";
import { bumpPolicyRevision } from "./revisions.ts";
import { text } from "./row.ts";
import { readSetting, writeSetting } from "./settings.ts";

/** Seals everything sealed anew under the active master key; all or nothing. Returns how many values changed. */
export async function rewrapSecrets(db: Db, keyring: Keyring): Promise<number> {
  return transaction(db, async (tx) => {
    // Running servers must drop the old ciphertexts before the old master key goes.
    await bumpPolicyRevision(tx);
    const kid = keyring.activeKid;
    const rewrap = (binding: string, sealed: string) =>
      seal(keyring, binding, unseal(keyring, binding, sealed));
    let changed = 0;
    const accounts =
      await tx.sql`SELECT id, sealed_credential FROM account WHERE sealed_credential IS NOT NULL`;
    for (const row of accounts) {
      const id = text(row, "id");
      const sealed = text(row, "sealed_credential");
      if (kidOf(sealed) === kid) continue;
      const rewrapped = rewrap(accountCredentialBinding(id), sealed);
      await tx.sql`UPDATE account SET sealed_credential = ${rewrapped} WHERE id = ${id}`;
      changed += 1;
    }
    const pepper = await readSetting(tx, PEPPER_SETTING);
    if (pepper !== null && kidOf(pepper) !== kid) {
      await writeSetting(tx, PEPPER_SETTING, rewrap(PEPPER_BINDING, pepper));
      changed += 1;
    }
    return changed;
  });
}
