/** What the connections of a server share: limits, budgets, the request handler, the registry. */

import type { HttpResponse, WholeResponse } from "../wire/http-message.ts";
import type { AdmittedConnection } from "./admission.ts";
import type { ConnectionBytes } from "./connection-bytes.ts";
import type { IncomingRequest, Upgrade } from "./incoming-request.ts";
import type { RequestFault } from "./request-head.ts";
import type { Turns } from "./turn-queue.ts";

/** Size and time limits of one client connection. */
export interface ConnectionLimits {
  readonly headBytesMax: number;
  /** From the first byte of a head to its last. */
  readonly headMs: number;
  /** From the opening of the connection to the first byte of its first request. */
  readonly firstByteMs: number;
  /** Idle time between two requests. */
  readonly idleMs: number;
  /** Pipelined bytes above which reading stops, and unsent ones above which the next request waits. */
  readonly readAheadBytesMax: number;
  /** How long a long body may wait for a reader. The connection is paused until then. */
  readonly unreadBodyMs: number;
  /** How long a client may send after its response is complete. */
  readonly lingerMs: number;
  /** How long a client may read nothing of its response. */
  readonly stallMs: number;
}

/**
 * - `open`: connections are accepted and kept alive.
 * - `leaving`: connections are accepted. Each response announces that it closes its connection.
 * - `closing`: no connections are accepted, and idle ones are closed.
 */
export type ListenPhase = "open" | "leaving" | "closing";

export interface ServerContext {
  readonly limits: ConnectionLimits;
  /** Time of the last check of all connections. */
  readonly nowMs: number;
  readonly unauthenticatedBytes: ConnectionBytes;
  /** Memory that pipelined requests of authenticated clients occupy together. */
  readonly authenticatedBytes: ConnectionBytes;
  /** Memory that unread responses of authenticated clients occupy together. */
  readonly unsentBytes: ConnectionBytes;
  /** `date: …`, with its line end. */
  readonly dateLine: string;
  readonly phase: ListenPhase;
  /** Serves pipelined requests of unauthenticated clients. */
  readonly unauthenticatedTurns: Turns;
  serve(request: IncomingRequest): HttpResponse | Upgrade | Promise<HttpResponse | Upgrade>;
  reject(requestFault: RequestFault): WholeResponse;
  /** Reports a bug of the server. The connection is closed, because it is unknown what its client has received. */
  reportFault(thrown: unknown): void;
  /** The response is complete. Bytes that still arrive on this connection are discarded. */
  onResponseEnd(connection: ManagedConnection): void;
  onClose(connection: ManagedConnection): void;
}

export interface ManagedConnection extends AdmittedConnection {
  /** Periodic check: closes the connection when it has exceeded a time limit. Returns whether it has. */
  checkTimeouts(nowMs: number): boolean;
  /** Shutdown has begun: closes an idle connection at once, and any other one after its response. */
  closeWhenIdle(): void;
  /** The process exits: closes the connection at once. */
  closeNow(): void;
}
