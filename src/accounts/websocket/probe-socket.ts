/** Probes whether an account supports WebSocket, for the `doctor` command. */

import type { Clock } from "../../base/clock.ts";
import type { Deadlines } from "../../base/deadlines.ts";
import { ConnectionPool } from "../../net/http-client/connections.ts";
import type { Dialer } from "../../net/http-client/dial.ts";
import type { PolicyAccount } from "../account.ts";
import { credentialHeader, KINDS } from "../kinds/table.ts";
import { type HandshakeProbe, probeHandshake } from "./probe-handshake.ts";

interface SocketProbeOptions {
  dialer: Dialer;
  deadlines: Deadlines;
  clock: Clock;
  userAgent: string;
  limits: {
    connectTimeoutMs: number;
    upstreamHeadBytesMax: number;
    eventBytesMax: number;
    upstreamErrorBytesMax: number;
    doctorTimeoutMs: number;
  };
}

/** Whether an account that is configured for WebSocket supports it. Returns null if it cannot be dialled. */
export async function probeSocket(
  account: PolicyAccount,
  options: SocketProbeOptions,
): Promise<HandshakeProbe | null> {
  const { dialer, deadlines, clock, limits } = options;
  const { connectTimeoutMs } = limits;
  const connections = new ConnectionPool({
    deadlines,
    clock,
    connectTimeoutMs,
    idleMs: 0,
    idlePerOriginMax: 0,
  });
  const credential = credentialHeader(account);
  try {
    const target = await dialer.resolve(account.baseUrl, account);
    return await probeHandshake(
      {
        connections,
        deadlines,
        monotonicMs: clock.monotonicMs,
        headBytesMax: limits.upstreamHeadBytesMax,
        messageBytesMax: limits.eventBytesMax,
        errorBytesMax: limits.upstreamErrorBytesMax,
        handshakeTimeoutMs: limits.doctorTimeoutMs,
      },
      {
        route: connections.resolveRoute(target),
        path: KINDS[account.kind].path(account, {
          path: "/responses",
          upstreamModel: "",
          wantsEvents: false,
        }),
        headers:
          `user-agent: ${options.userAgent}\r\n` +
          (credential === null ? "" : `${credential[0]}: ${credential[1]}\r\n`),
      },
    );
  } catch {
    return null;
  }
}
