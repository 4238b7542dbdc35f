/** Records like any other, for tests to change what matters to them. */

import { ACCOUNT_FIELDS, type AccountRecord } from "./account.ts";
import { createRecord } from "./fields.ts";
import { DEFAULT_QUEUE, GROUP_FIELDS, type GroupRecord, NO_BILLING } from "./group.ts";
import { INTERFACES } from "./interfaces.ts";
import { KEY_FIELDS, type KeyRecord } from "./key.ts";
import { NO_LIMITS } from "./limits.ts";
import { MODEL_FIELDS, type ModelRecord } from "./model.ts";
import type { UserRecord } from "./user.ts";

export function modelRecord(id: string, change: Partial<ModelRecord> = {}): ModelRecord {
  return createRecord(MODEL_FIELDS, { id, interfaces: ["chat"], createdAtMs: 1, ...change });
}

/** It has every model, under the public name. */
export function accountRecord(id: string, change: Partial<AccountRecord> = {}): AccountRecord {
  return createRecord(ACCOUNT_FIELDS, {
    id,
    name: `name of ${id}`,
    kind: "openai",
    baseUrl: "https://upstream.example/v1",
    interfaces: ["chat"],
    priority: 1,
    weight: 1,
    models: { "*": "*" },
    createdAtMs: 1,
    ...change,
  });
}

/** For everyone and for nothing, without limits. */
export function groupRecord(id: string, change: Partial<GroupRecord> = {}): GroupRecord {
  return createRecord(GROUP_FIELDS, {
    id,
    name: `name of ${id}`,
    interfaces: [...INTERFACES],
    models: [],
    accounts: [],
    access: "everyone",
    billing: NO_BILLING,
    onDisconnect: "cancel",
    queue: DEFAULT_QUEUE,
    createdAtMs: 1,
    ...change,
  });
}

/** Has no user; in the group `g1`. */
export function keyRecord(id: string, change: Partial<KeyRecord> = {}): KeyRecord {
  return createRecord(KEY_FIELDS, {
    id,
    name: `name of ${id}`,
    groupId: "g1",
    digest: `digest of ${id}`,
    publicId: `pub-${id}`,
    last4: "last",
    status: "active",
    createdAtMs: 1,
    ...change,
  });
}

/** In no group. */
export function userRecord(id: string, change: Partial<UserRecord> = {}): UserRecord {
  return {
    id,
    email: `${id}@example.com`,
    role: "user",
    status: "active",
    passwordHash: null,
    limits: NO_LIMITS,
    groups: [],
    createdAtMs: 1,
    ...change,
  };
}
