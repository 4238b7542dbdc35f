/** A message of the Messages API before it is written, whole or as events. */

import type { Call } from "../endpoint.ts";
import type { Usage } from "../model/model-output.ts";
import type { CacheUse } from "./messages-cache.ts";

/** One block of the response. */
export type MessageBlock =
  /** `citedUrl` is the page that a search has found. */
  | { type: "text"; text: string; citedUrl?: string }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id: string; name: string; input: string }
  | { type: "server_tool_use"; id: string; name: string; input: string }
  | { type: "web_search_tool_result"; tool_use_id: string; url: string };

export interface PlannedMessage {
  id: string;
  call: Call;
  blocks: readonly MessageBlock[];
  stopReason: string;
  stopSequence: string | null;
  /** As reported; null if a fault leaves it out. */
  usage: Usage | null;
  cacheUse: CacheUse;
  searches: number;
}
