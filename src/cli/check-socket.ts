/** The account check of `doctor`, over WebSocket. */

import type { PolicyAccount } from "../accounts/account.ts";
import type { HandshakeProbe } from "../accounts/websocket/probe-handshake.ts";
import { probeSocket } from "../accounts/websocket/probe-socket.ts";
import { systemClock } from "../base/clock.ts";
import type { Deadlines } from "../base/deadlines.ts";
import { limits } from "../config/limits/product-limits.ts";
import type { Dialer } from "../net/http-client/dial.ts";
import { VERSION } from "../version.ts";
import { PROBE_FAILURES } from "./check-account.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";

/** Checks whether an account supports WebSocket as configured. Null if the check over HTTP sufficed. */
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
  return handshake === null ? null : describeHandshake(`account ${account.name}, WebSocket`, handshake);
}

function describeHandshake(what: string, handshake: HandshakeProbe): Finding {
  if (handshake.kind === "open") return passed(what, "is supported");
  if (handshake.kind === "failed") return failed(what, ...PROBE_FAILURES[handshake.failure.kind]);
  const { status } = handshake;
  return status === 401 || status === 403
    ? failed(
        what,
        `rejected the credential (${status})`,
        "Set a valid credential in the configuration file and apply it.",
      )
    : warned(
        what,
        `is rejected (${status}), so HTTP is used`,
        "Set websocket: false for the account, or check base_url.",
      );
}
