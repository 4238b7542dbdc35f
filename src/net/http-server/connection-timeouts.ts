/** Decides when a connection has exceeded one of its time limits, and how it ends then. */

import type { ConnectionState, Trust } from "./connection-state.ts";
import type { ConnectionLimits } from "./server-context.ts";

/** The part of a connection that its time limits depend on. */
interface TimedConnection {
  readonly state: ConnectionState;
  readonly trust: Trust;
  /** Whether the client has not read all of its response. */
  readonly hasUnsentBytes: boolean;
  readonly isPaused: boolean;
  readonly isHeadPartial: boolean;
}

/** `reject` sends an error response first; `end` closes an idle connection in order. */
type TimeoutAction = "terminate" | "discard_unread" | "refuse" | "end";

/** `elapsedMs` is the time since the connection entered its state, or since the client last accepted bytes. */
export function findTimeout(
  connection: TimedConnection,
  elapsedMs: number,
  limits: ConnectionLimits,
): TimeoutAction | null {
  if (connection.hasUnsentBytes) return elapsedMs > limits.stallMs ? "terminate" : null;
  switch (connection.state) {
    case "responded":
    case "lingering":
      return elapsedMs > limits.lingerMs ? "terminate" : null;
    case "within":
      // While the socket is paused, a disconnect of the client goes unnoticed.
      return elapsedMs > limits.unreadBodyMs && connection.isPaused ? "discard_unread" : null;
    case "between":
      if (connection.isHeadPartial) return elapsedMs > limits.headMs ? "refuse" : null;
      return elapsedMs > (connection.trust === "silent" ? limits.firstByteMs : limits.idleMs) ? "end" : null;
    default:
      return null;
  }
}
