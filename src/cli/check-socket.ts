/** The account check of `doctor`, over WebSocket. */

import type { HandshakeProbe } from "../accounts/websocket/greet.ts";
import { probeSocket } from "../accounts/websocket/probe-socket.ts";
import { limits } from "../config/product-limits.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import { systemClock } from "../net/wire/clock.ts";
import type { Deadlines } from "../net/wire/deadlines.ts";
import type { PolicyAccount } from "../policy/snapshot.ts";
import { VERSION } from "../version.ts";
import { failureMeaning, type Meaning } from "./check-account.ts";
import type { Finding } from "./finding.ts";

/**
 * Checks whether an account that is configured for WebSocket supports it. Null if the check over HTTP was
 * sufficient.
 */
export async function checkSocket(
  account: PolicyAccount,
  dialer: Dialer,
  alarms: Deadlines,
): Promise<Finding | null> {
  const greeting = await probeSocket(account, {
    dialer,
    alarms,
    clock: systemClock,
    userAgent: `model-gateway/${VERSION}`,
    limits,
  });
  return greeting === null
    ? null
    : { what: `account ${account.name}, WebSocket`, ...describeHandshake(greeting) };
}

function describeHandshake(greeting: HandshakeProbe): Meaning {
  if (greeting.kind === "open") return { state: "good", says: "is spoken", todo: null };
  if (greeting.kind === "failed") return failureMeaning(greeting.failure.kind);
  const { status } = greeting;
  if (status === 401 || status === 403) {
    return {
      state: "broken",
      says: `refuses the credential (${status})`,
      todo: "Put a valid credential into the file and apply it.",
    };
  }
  return {
    state: "doubtful",
    says: `is refused (${status}), so that turns go out over HTTP`,
    todo: "Write websocket: false at the account, or check base_url.",
  };
}
