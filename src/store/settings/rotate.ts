/** Rotation of the master key. */

import type { WebhookRecord } from "../../records/settings.ts";
import type { Keyring } from "../../secrets/keyring.ts";
import {
  accountCredentialBinding,
  captureKeyBinding,
  providerSecretBinding,
  readKeyId,
  SMTP_PASSWORD_BINDING,
  seal,
  totpBinding,
  unseal,
  type WebhookList,
  webhookSecretBinding,
} from "../../secrets/seal.ts";
import { type Db, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { text } from "../engine/row.ts";
import { PEPPER_BINDING, PEPPER_SETTING } from "./pepper.ts";
import {
  readAlertSettings,
  readSignIn,
  readSmtp,
  writeAlertSettings,
  writeSignIn,
  writeSmtp,
} from "./sections.ts";
import { readSetting, writeSetting } from "./settings.ts";
import { readUsageExport, replaceUsageExport } from "./usage-export-settings.ts";

/** Seals all secrets again under the active master key, atomically. Returns the number of changed values. */
export async function rewrapSecrets(db: Db, keyring: Keyring): Promise<number> {
  return transaction(db, async (tx) => {
    // Running servers must drop the old ciphertexts before the old master key is removed.
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
      if (readKeyId(sealed) === kid) continue;
      const rewrapped = rewrap(accountCredentialBinding(id), sealed);
      await tx.sql`UPDATE account SET sealed_credential = ${rewrapped} WHERE id = ${id}`;
      changed += 1;
    }
    for (const row of await tx.sql`SELECT id, sealed_totp FROM app_user WHERE sealed_totp IS NOT NULL`) {
      const id = text(row, "id");
      const sealed = text(row, "sealed_totp");
      if (readKeyId(sealed) === kid) continue;
      const rewrapped = rewrap(totpBinding(id), sealed);
      await tx.sql`UPDATE app_user SET sealed_totp = ${rewrapped} WHERE id = ${id}`;
      changed += 1;
    }
    for (const row of await tx.sql`SELECT request_id, sealed_key FROM capture`) {
      const id = text(row, "request_id");
      const sealed = text(row, "sealed_key");
      if (readKeyId(sealed) === kid) continue;
      const rewrapped = rewrap(captureKeyBinding(id), sealed);
      await tx.sql`UPDATE capture SET sealed_key = ${rewrapped} WHERE request_id = ${id}`;
      changed += 1;
    }
    const pepper = await readSetting(tx, PEPPER_SETTING);
    if (pepper !== null && readKeyId(pepper) !== kid) {
      await writeSetting(tx, PEPPER_SETTING, rewrap(PEPPER_BINDING, pepper));
      changed += 1;
    }
    const smtp = await readSmtp(tx);
    if (smtp !== null && smtp.sealedPassword !== null && readKeyId(smtp.sealedPassword) !== kid) {
      const sealedPassword = rewrap(SMTP_PASSWORD_BINDING, smtp.sealedPassword);
      await writeSmtp(tx, { ...smtp, sealedPassword });
      changed += 1;
    }
    const alerts = await readAlertSettings(tx);
    const isOld = (sealed: string | null): sealed is string => sealed !== null && readKeyId(sealed) !== kid;
    const rewrapWebhooks = (webhooks: readonly WebhookRecord[], list: WebhookList) =>
      webhooks.map((webhook) => {
        const { name, sealedSecret } = webhook;
        if (!isOld(sealedSecret)) return webhook;
        changed += 1;
        return { ...webhook, sealedSecret: rewrap(webhookSecretBinding(list, name), sealedSecret) };
      });
    if (alerts.webhooks.some(({ sealedSecret }) => isOld(sealedSecret))) {
      const webhooks = rewrapWebhooks(alerts.webhooks, "alerts");
      await writeAlertSettings(tx, { ...alerts, webhooks });
    }
    const usageExport = await readUsageExport(tx);
    if (usageExport.webhooks.some(({ sealedSecret }) => isOld(sealedSecret))) {
      const webhooks = rewrapWebhooks(usageExport.webhooks, "usage_export");
      await replaceUsageExport(tx, { ...usageExport, webhooks });
    }
    return changed + (await rewrapProviders(tx, keyring));
  });
}

async function rewrapProviders(tx: Db, keyring: Keyring): Promise<number> {
  const signIn = await readSignIn(tx);
  let changed = 0;
  const providers = signIn.providers.map((provider) => {
    const { name, sealedSecret } = provider;
    if (sealedSecret === null || readKeyId(sealedSecret) === keyring.activeKid) return provider;
    changed += 1;
    const binding = providerSecretBinding(name);
    return { ...provider, sealedSecret: seal(keyring, binding, unseal(keyring, binding, sealedSecret)) };
  });
  if (changed > 0) await writeSignIn(tx, { ...signIn, providers });
  return changed;
}
