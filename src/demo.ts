/** The first run's furniture: one group whose only account is the built-in simulator, and a key for it. */

import { chmodSync, existsSync, writeFileSync } from "node:fs";
import type { Clock, NewId } from "./clock.ts";
import { INTERFACES, type ModelRecord } from "./records.ts";
import { mintApiKey } from "./secrets/api-key.ts";
import type { RandomBytes } from "./secrets/keyring.ts";
import { putAccount } from "./store/accounts.ts";
import { type Db, transaction } from "./store/db.ts";
import { putGroup } from "./store/groups.ts";
import { insertKey } from "./store/keys.ts";
import { putModel } from "./store/models.ts";
import { readPolicy } from "./store/policy.ts";

const DEMO_MODELS: readonly Pick<ModelRecord, "id" | "interfaces">[] = [
  { id: "sim-fast", interfaces: ["chat", "responses"] },
  { id: "sim-reason", interfaces: ["chat", "responses"] },
  { id: "sim-tools", interfaces: ["chat", "responses"] },
  { id: "sim-embed", interfaces: ["embeddings"] },
  { id: "sim-image", interfaces: ["images"] },
];

export interface DemoOptions {
  db: Db;
  clock: Clock;
  newId: NewId;
  randomBytes: RandomBytes;
  digest(secret: string): string;
  /** Where the demo key is left for the start-up text's curl; readable by its owner alone. */
  keyFile: string;
}

/** Only in an empty installation: whoever has configured something did not ask for a demo. */
export async function furnishDemo(options: DemoOptions): Promise<boolean> {
  const { db, newId } = options;
  const records = await readPolicy(db);
  if (records.accounts.length + records.groups.length + records.models.length > 0) return false;
  const createdAtMs = options.clock.nowMs();
  const minted = mintApiKey(options.randomBytes);
  const accountId = newId("acc");
  const groupId = newId("grp");
  await transaction(db, async (tx) => {
    for (const model of DEMO_MODELS) await putModel(tx, { ...model, price: null, createdAtMs });
    await putAccount(tx, {
      id: accountId,
      name: "simulator",
      kind: "simulator",
      baseUrl: "",
      sealedCredential: null,
      interfaces: [...INTERFACES],
      apiVersion: null,
      privateNetwork: false,
      priority: 1,
      weight: 1,
      models: { "sim-*": "sim-*" },
      enabled: true,
      createdAtMs,
    });
    await putGroup(tx, {
      id: groupId,
      name: "demo",
      interfaces: [...INTERFACES],
      models: DEMO_MODELS.map(({ id }) => id),
      accounts: [accountId],
      onDisconnect: "cancel",
      createdAtMs,
    });
    await insertKey(tx, {
      id: newId("key"),
      name: "demo",
      userId: null,
      groupId,
      digest: options.digest(minted.secret),
      publicId: minted.publicId,
      last4: minted.last4,
      status: "active",
      expiresAtMs: null,
      createdAtMs,
      revokedAtMs: null,
    });
  });
  writeFileSync(options.keyFile, `${minted.secret}\n`, { mode: 0o600 });
  chmodSync(options.keyFile, 0o600);
  return true;
}

/** The demo key lives on for as long as its file does. */
export function hasDemoKey(keyFile: string): boolean {
  return existsSync(keyFile);
}
