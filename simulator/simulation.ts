/** The state of one simulator. */

import type { Clock } from "../src/base/clock.ts";
import type { TokenIssuer } from "./cloud/access-tokens.ts";
import type { Ledger } from "./ledger.ts";
import type { PrefixCache } from "./messages/messages-cache.ts";
import type { Fault } from "./model/model-name.ts";
import type { PromptCache } from "./model/model-output.ts";
import type { TokenRule } from "./model/tokens.ts";
import type { ResponseStore } from "./openai/response-store.ts";

/** State that outlives one request. */
export interface Simulation {
  seed: number;
  credential: string | null;
  clock: Clock;
  newId: (prefix: string) => string;
  ledger: Ledger;
  store: ResponseStore;
  promptCache: PromptCache;
  /** The prompt cache of Messages. */
  prefixCache: PrefixCache;
  tokens: TokenRule;
  /** The open WebSockets. */
  sockets: Set<{ end(code: number | null): void }>;
  /** Issues the access tokens of Google Vertex AI. */
  tokenIssuer: TokenIssuer;
  /** A fault for every model, set at run time. */
  forced: { fault: Fault; left: number } | null;
}
