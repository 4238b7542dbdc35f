import { ApiError } from "../errors.ts";
import { allowInterface } from "../gateway/admit.ts";
import type { Caller } from "../gateway/authenticate.ts";

/** Some clients fall back to HTTP at once on this status, and on no other. */
export function allowSocket(caller: Caller): void {
  allowInterface(caller, { interface: "responses" });
  if (caller.group.websocket) return;
  throw new ApiError(
    "upgrade_required",
    "This key's group does not include Responses over WebSocket. Use POST /v1/responses.",
  );
}
