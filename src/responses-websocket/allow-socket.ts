import { ApiError } from "../errors.ts";
import type { Caller } from "../gateway/admission/authenticate.ts";

/** Some clients fall back to HTTP at once on this status, and on no other: any other is asked for again and again. */
export function allowSocket({ group }: Caller): void {
  if (group.interfaces.has("responses") && group.websocket) return;
  throw new ApiError("upgrade_required", group.interfaces.has("responses") ? ONLY_HTTP : NEITHER);
}

const ONLY_HTTP = "This key's group does not include Responses over WebSocket. Use POST /v1/responses.";
const NEITHER =
  "This key's group does not include the responses interface, over WebSocket or HTTP. Use a key of a group that does, or ask your administrator.";
