/** One request as a handler sees it, and the upgrade that a handler may return instead of a response. */

import type { HeaderReader } from "../wire/http-fields.ts";
import type { HttpBody, IncomingHttpRequest } from "../wire/http-message.ts";
import type { RequestHead } from "./request-head.ts";
import type { SocketWriter, UpgradedProtocol } from "./socket-writer.ts";

interface ClientConnection extends Pick<SocketWriter, "address" | "terminate"> {
  readonly signal: AbortSignal;
  /** The client presented a valid key, session or token: its connection no longer counts as unauthenticated. */
  authenticated(): void;
}

export class IncomingRequest implements IncomingHttpRequest {
  readonly head: RequestHead;
  readonly body: HttpBody | null;
  readonly peer: ClientConnection;

  constructor(peer: ClientConnection, head: RequestHead, body: HttpBody | null) {
    this.peer = peer;
    this.head = head;
    this.body = body;
  }

  get method(): string {
    return this.head.options.method;
  }

  /** Path and query. */
  get target(): string {
    return this.head.options.target;
  }

  get headers(): HeaderReader {
    return this.head.options.headers;
  }

  get signal(): AbortSignal {
    return this.peer.signal;
  }
}

/** Switches the connection to another protocol. */
export class Upgrade {
  readonly head: Uint8Array;
  readonly open: (writer: SocketWriter) => UpgradedProtocol;

  constructor(head: Uint8Array, open: (writer: SocketWriter) => UpgradedProtocol) {
    this.head = head;
    this.open = open;
  }
}
