/** What all endpoints of Anthropic's API have in common. */

import type { ApiError } from "../../errors.ts";
import type { VendorApi } from "../shared/endpoint.ts";
import { messagesErrorBody, messagesErrorStatus } from "./messages-error.ts";
import { PING } from "./messages-stream.ts";

export const ANTHROPIC_API: VendorApi = {
  name: "anthropic",
  prefix: "/v1",
  hasModelInPath: false,
  countField: "input_tokens",
  // Its clients count this event as traffic, and no comment.
  keepAlive: PING,
  requestIdHeader: "request-id",
  errorStatus: messagesErrorStatus,
  writeError: (error, requestId) => ({
    status: messagesErrorStatus(error),
    headers: {
      ...error.headers,
      "request-id": requestId,
      ...(isFinal(error) ? { "x-should-retry": "false" } : {}),
    },
    body: messagesErrorBody(error, requestId),
  }),
};

/** Claude Code repeats a 401 seven times and more, which only uses up the throttle of invalid keys. */
function isFinal({ code }: ApiError): boolean {
  return code === "invalid_api_key" || code === "missing_api_key";
}
