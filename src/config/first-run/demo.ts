/** The demo of the first run: a key, and a group whose only account is the built-in simulator. */

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ACCOUNT_FIELDS } from "../../records/account.ts";
import { createRecord } from "../../records/fields.ts";
import { DEFAULT_QUEUE, GROUP_FIELDS, NO_BILLING } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { KEY_FIELDS } from "../../records/key.ts";
import { MODEL_FIELDS, type ModelRecord } from "../../records/model.ts";
import { mintApiKey } from "../../secrets/api-key.ts";
import { transaction } from "../../store/engine/db.ts";
import { putAccount } from "../../store/policy/accounts.ts";
import { putGroup } from "../../store/policy/groups.ts";
import { insertKey } from "../../store/policy/keys.ts";
import { putModel } from "../../store/policy/models.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import type { Settings } from "../installation/environment.ts";
import type { Installation } from "../installation/installation.ts";

/** The examples of the API explorer use these ids. */
export const DEMO_MODELS: readonly Pick<ModelRecord, "id" | "interfaces">[] = [
  { id: "sim-fast", interfaces: ["chat", "responses", "messages", "gemini"] },
  { id: "sim-reason", interfaces: ["chat", "responses", "messages", "gemini"] },
  { id: "sim-tools", interfaces: ["chat", "responses", "messages", "gemini"] },
  { id: "sim-embed", interfaces: ["embeddings"] },
  { id: "sim-image", interfaces: ["images"] },
];

/** The file of the demo key, which the curl command in the start-up text reads. Only its owner can read it. */
export function demoKeyFile(settings: Pick<Settings, "dataDir">): string {
  return join(settings.dataDir, "demo.key");
}

/** Creates the demo only in an empty installation: existing configuration means that the operator does not need it. */
export async function createDemo(installation: Installation): Promise<boolean> {
  const { db, newId } = installation;
  const records = await readPolicy(db);
  if (records.accounts.length + records.groups.length + records.models.length > 0) return false;
  const createdAtMs = installation.clock.nowMs();
  const minted = mintApiKey(installation.randomBytes);
  const accountId = newId("acc");
  const groupId = newId("grp");
  await transaction(db, async (tx) => {
    for (const model of DEMO_MODELS)
      await putModel(tx, createRecord(MODEL_FIELDS, { ...model, createdAtMs }));
    const account = createRecord(ACCOUNT_FIELDS, {
      id: accountId,
      name: "simulator",
      kind: "simulator",
      interfaces: [...INTERFACES],
      priority: 1,
      weight: 1,
      models: { "sim-*": "sim-*" },
      createdAtMs,
    });
    await putAccount(tx, account);
    const group = createRecord(GROUP_FIELDS, {
      id: groupId,
      name: "demo",
      interfaces: [...INTERFACES],
      models: DEMO_MODELS.map(({ id }) => id),
      accounts: [accountId],
      access: "everyone",
      billing: NO_BILLING,
      queue: DEFAULT_QUEUE,
      createdAtMs,
    });
    await putGroup(tx, group);
    const key = createRecord(KEY_FIELDS, {
      id: newId("key"),
      name: "demo",
      groupId,
      digest: installation.digest(minted.secret),
      publicId: minted.publicId,
      last4: minted.last4,
      status: "active",
      createdAtMs,
    });
    await insertKey(tx, key);
  });
  const keyFile = demoKeyFile(installation.settings);
  writeFileSync(keyFile, `${minted.secret}\n`, { mode: 0o600 });
  chmodSync(keyFile, 0o600);
  return true;
}
