/** One HTTP request from its arrival at the server: what all endpoints need of it. */

import type { HttpCall } from "../gateway/call.ts";
import type { IncomingRequest } from "../net/http-server/incoming-request.ts";
import { resolveClientAddress } from "../net/http-server/proxy.ts";

/** A class, so that a request costs one object here and no closures. */
export class ServerCall implements HttpCall {
  readonly request: IncomingRequest;
  readonly requestId: string;
  readonly startedMs: number;
  readonly socketTurn = null;
  /** The target without its query. */
  readonly path: string;

  constructor(request: IncomingRequest, requestId: string, startedMs: number) {
    const { target } = request;
    const queryAt = target.indexOf("?");
    this.request = request;
    this.requestId = requestId;
    this.startedMs = startedMs;
    this.path = queryAt === -1 ? target : target.slice(0, queryAt);
  }

  /** Without the question mark; empty when the target has no query. */
  get query(): string {
    return this.request.target.slice(this.path.length + 1);
  }

  get bodyBytes(): number | null {
    const { body } = this.request;
    return body === null ? 0 : body.length;
  }

  clientAddress(): string {
    return this.request.peer.address;
  }

  networkAddress(publicUrl: string): string | null {
    return resolveClientAddress(this.request.headers, this.clientAddress(), publicUrl);
  }

  authenticated(): void {
    this.request.peer.authenticated();
  }

  closeConnection(): void {
    this.request.peer.terminate();
  }
}
