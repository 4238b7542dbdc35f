/** The account check of `doctor`, over WebSocket. */

import type { PolicyAccount } from "../accounts/account.ts";
import type { HandshakeProbe } from "../accounts/websocket/probe-handshake.ts";
import { probeSocket } from "../accounts/websocket/probe-socket.ts";
import { systemClock } from "../base/clock.ts";
import type { Deadlines } from "../base/deadlines.ts";
import { limits } from "../config/limits/product-limits.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import { VERSION } from "../version.ts";
import { failureMeaning, type ProbeFinding } from "./check-account.ts";
import type { Finding } from "./finding.ts";

/**
 * Checks whether an account that is configured for WebSocket supports it. Null if the check over HTTP was
 * sufficient.
 */
export async function checkSocket(
  account: PolicyAccount,
  dialer: Dialer,
  deadlines: Deadlines,
): Promise<Finding | null> {
  const handshake = await probeSocket(account, {
    dialer,
    deadlines,
    clock: systemClock,
    userAgent: `model-gateway/${VERSION}`,
    limits,
  });
  return handshake === null
    ? null
    : { what: `account ${account.name}, WebSocket`, ...describeHandshake(handshake) };
}

function describeHandshake(handshake: HandshakeProbe): ProbeFinding {
  if (handshake.kind === "open") return { state: "good", message: "is supported", todo: null };
  if (handshake.kind === "failed") return failureMeaning(handshake.failure.kind);
  const { status } = handshake;
  if (status === 401 || status === 403) {
    return {
      state: "broken",
      message: `rejected the credential (${status})`,
      todo: "Set a valid credential in the configuration file and apply it.",
    };
  }
  return {
    state: "doubtful",
    message: `is rejected (${status}), so HTTP is used`,
    todo: "Set websocket: false for the account, or check base_url.",
  };
}
