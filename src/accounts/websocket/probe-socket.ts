/** Probes whether an account supports WebSocket, for the `doctor` command. */

import { openConnections } from "../../net/http-client/connections.ts";
import type { Dialer } from "../../net/http-client/dial.ts";
import type { Clock } from "../../net/wire/clock.ts";
import type { Deadlines } from "../../net/wire/deadlines.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "../address.ts";
import { type HandshakeProbe, probeHandshake } from "./greet.ts";

export interface SocketProbeOptions {
  dialer: Dialer;
  alarms: Deadlines;
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
  const { dialer, alarms, clock, limits } = options;
  const { connectTimeoutMs } = limits;
  const connections = openConnections({ alarms, clock, connectTimeoutMs, idleMs: 0, idlePerOriginMax: 0 });
  const credential = credentialHeader(account);
  try {
    const target = await dialer.resolve(account.baseUrl, account.privateNetwork);
    return await probeHandshake(
      {
        connections,
        alarms,
        monotonicMs: clock.monotonicMs,
        headBytesMax: limits.upstreamHeadBytesMax,
        messageBytesMax: limits.eventBytesMax,
        errorBytesMax: limits.upstreamErrorBytesMax,
        handshakeTimeoutMs: limits.doctorTimeoutMs,
      },
      {
        route: connections.routeOf(target),
        path: upstreamPath(account, "/responses", ""),
        headers:
          `user-agent: ${options.userAgent}\r\n` +
          (credential === null ? "" : `${credential[0]}: ${credential[1]}\r\n`),
      },
    );
  } catch {
    return null;
  }
}
