/** The failures of upstream calls whose client disconnected. The account is not at fault. */

import { type UpstreamFailure, upstreamFailure } from "../accounts/failure.ts";

export const CLIENT_DISCONNECTED = upstreamFailure("reset", "the client disconnected");
/** The client disconnected before any byte of the request was sent, so no account processed it. */
export const CLIENT_DISCONNECTED_UNSENT = upstreamFailure(
  "connect",
  "the client disconnected before the request was sent",
);

export function isClientDisconnect(failure: UpstreamFailure): boolean {
  return failure === CLIENT_DISCONNECTED || failure === CLIENT_DISCONNECTED_UNSENT;
}
