/** Checks whether a key may use Responses over WebSocket. */

import { ApiError } from "../errors.ts";
import type { Caller } from "../gateway/admission/authenticate.ts";

/** Rejects with 426: some clients fall back to HTTP at once on this status only, and retry on any other. */
export function allowSocket({ group }: Caller): void {
  if (group.interfaces.has("responses") && group.websocket) return;
  throw new ApiError("upgrade_required", group.interfaces.has("responses") ? ONLY_HTTP : NEITHER);
}

const ONLY_HTTP = "This key's group does not include Responses over WebSocket. Use POST /v1/responses.";
const NEITHER =
  "This key's group does not include the responses interface, over WebSocket or HTTP. Use a key of a group that does, or ask your administrator.";
