/** Test support: accounts. */

import { NO_RATE_LIMITS } from "../records/limits.ts";
import type { PolicyAccount } from "./account.ts";

/** An account with WebSocket enabled. */
export function socketAccount(change: Partial<PolicyAccount> = {}): PolicyAccount {
  return {
    id: "acct_1",
    name: "one",
    kind: "openai",
    baseUrl: "http://upstream.example/v1",
    basePath: "/v1",
    credential: null,
    apiVersion: null,
    propagateTrace: false,
    interfaces: new Set(["responses"]),
    websocket: true,
    privateNetwork: true,
    priority: 1,
    weight: 1,
    models: {},
    limits: NO_RATE_LIMITS,
    ...change,
  };
}
