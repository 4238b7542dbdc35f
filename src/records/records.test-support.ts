/** Records like any other, for tests to change what matters to them. */

import type { AccountRecord } from "./account.ts";
import { DEFAULT_QUEUE, type GroupRecord, NO_BILLING } from "./group.ts";
import { INTERFACES } from "./interfaces.ts";
import type { KeyRecord } from "./key.ts";
import { NO_LIMITS, NO_RATE_LIMITS } from "./limits.ts";
import type { ModelRecord } from "./model.ts";
import type { UserRecord } from "./user.ts";

export function modelRecord(id: string, change: Partial<ModelRecord> = {}): ModelRecord {
  return {
    id,
    interfaces: ["chat"],
    price: null,
    contextTokens: null,
    outputTokensMax: null,
    createdAtMs: 1,
    ...change,
  };
}

/** It has every model, under the public name. */
export function accountRecord(id: string, change: Partial<AccountRecord> = {}): AccountRecord {
  return {
    id,
    name: `name of ${id}`,
    kind: "openai",
    baseUrl: "https://upstream.example/v1",
    sealedCredential: null,
    interfaces: ["chat"],
    websocket: false,
    apiVersion: null,
    propagateTrace: false,
    privateNetwork: false,
    priority: 1,
    weight: 1,
    models: { "*": "*" },
    limits: NO_RATE_LIMITS,
    enabled: true,
    createdAtMs: 1,
    ...change,
  };
}

/** For everyone and for nothing, without limits. */
export function groupRecord(id: string, change: Partial<GroupRecord> = {}): GroupRecord {
  return {
    id,
    name: `name of ${id}`,
    interfaces: [...INTERFACES],
    models: [],
    accounts: [],
    access: "everyone",
    billing: NO_BILLING,
    onDisconnect: "cancel",
    costHeaders: false,
    capture: "off",
    websocket: true,
    limits: NO_LIMITS,
    groupLimits: NO_LIMITS,
    queue: DEFAULT_QUEUE,
    createdAtMs: 1,
    ...change,
  };
}

/** Has no user; in the group `g1`. */
export function keyRecord(id: string, change: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id,
    name: `name of ${id}`,
    userId: null,
    groupId: "g1",
    digest: `digest of ${id}`,
    publicId: `pub-${id}`,
    last4: "last",
    status: "active",
    expiresAtMs: null,
    limits: NO_LIMITS,
    createdAtMs: 1,
    revokedAtMs: null,
    ...change,
  };
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
