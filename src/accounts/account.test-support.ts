/** Test support: accounts as requests use them. */

import { accountRecord } from "../records/records.test-support.ts";
import type { PolicyAccount } from "./account.ts";

/** An account without a credential and without limits. */
export function policyAccount(id: string, change: Partial<PolicyAccount> = {}): PolicyAccount {
  const { sealedCredential: _, enabled: __, createdAtMs: ___, ...settings } = accountRecord(id);
  return {
    ...settings,
    baseUrl: "https://upstream.example",
    basePath: "",
    credential: null,
    interfaces: new Set(["chat"]),
    models: {},
    ...change,
  };
}

/** An account with WebSocket enabled. */
export function socketAccount(change: Partial<PolicyAccount> = {}): PolicyAccount {
  return policyAccount("acct_1", {
    name: "one",
    baseUrl: "http://upstream.example/v1",
    basePath: "/v1",
    interfaces: new Set(["responses"]),
    websocket: true,
    privateNetwork: true,
    ...change,
  });
}
