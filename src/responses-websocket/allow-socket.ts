/** Checks whether a key may use Responses over WebSocket. */

import { ApiError } from "../errors.ts";
import type { Caller } from "../gateway/admission/authenticate.ts";

/** Rejects with 426: some clients fall back to HTTP at once on this status only, and retry on any other. */
export function allowSocket({ group }: Caller): void {
  if (group.interfaces.has("responses") && group.websocket) return;
  throw new ApiError(
    "upgrade_required",
    group.interfaces.has("responses") ? HTTP_ONLY_HINT : NO_RESPONSES_HINT,
  );
}

const HTTP_ONLY_HINT = "This key's group does not include Responses over WebSocket. Use POST /v1/responses.";
const NO_RESPONSES_HINT =
  "This key's group does not include the responses interface, over WebSocket or HTTP. Use a key of another group, or ask your administrator.";
