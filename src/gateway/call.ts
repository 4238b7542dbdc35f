/** What a transport hands to the pipeline: one HTTP request, or one turn on a WebSocket. */

import type { IncomingHttpRequest } from "../net/wire/http-message.ts";
import type { SocketTurn } from "./upstream/dispatch-request.ts";

export interface Call {
  /** The HTTP request, or headers and signal of the upgrade. The signal fires on a disconnect. */
  readonly request: Pick<IncomingHttpRequest, "headers" | "signal">;
  readonly requestId: string;
  readonly startedMs: number;
  /** Of the body as it is sent, or of the message of a turn; null for a chunked body. */
  readonly bodyBytes: number | null;
  /** Of the peer, which may be a proxy. */
  clientAddress(): string;
  /** Of the client, also behind a trusted proxy; null if it is unknown. Request policies may allow some networks only. */
  networkAddress(publicUrl: string): string | null;
  /** The turn on a WebSocket; null for HTTP. */
  readonly socketTurn: SocketTurn | null;
  /** Closes the connection soon, even with unsent data: for a client that does not read. */
  closeConnection(): void;
}

export interface HttpCall extends Call {
  readonly request: IncomingHttpRequest;
  /** The client sent a valid key: its connection no longer counts as unauthenticated. */
  authenticated(): void;
}
