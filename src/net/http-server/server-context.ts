/** What all connections of clients share: how long they may keep us waiting, who answers them, and who looks after them. */

import type { HttpResponse, WholeResponse } from "../wire/http-message.ts";
import type { Admitted } from "./admission.ts";
import type { ConnectionBytes } from "./connection-bytes.ts";
import type { IncomingRequest, Upgrade } from "./incoming-request.ts";
import type { RequestFault } from "./request-head.ts";
import type { Turns } from "./turns.ts";

/** How much, and how long, a connection of a client may keep us waiting. */
export interface ConnectionLimits {
  readonly headBytesMax: number;
  /** From its first byte to its last. */
  readonly headMs: number;
  /** From the connection's opening to the first byte of its first request. */
  readonly firstByteMs: number;
  /** Between two requests. */
  readonly idleMs: number;
  /** Requests before their turn, beyond which the rest waits in the network; and an unread answer, before the next one. */
  readonly aheadBytesMax: number;
  /** For somebody to ask for a long body, which holds the connection up until then. */
  readonly unaskedMs: number;
  /** For what a client still sends after its answer. */
  readonly lingerMs: number;
  /** For a client that takes nothing of what it asked for. */
  readonly stallMs: number;
}

export interface ServerContext {
  readonly limits: ConnectionLimits;
  /** As of the last look at all connections. */
  readonly nowMs: number;
  /** What connections of clients that have not authenticated occupy together. */
  readonly strangerBytes: ConnectionBytes;
  /** What requests before their turn occupy on the connections of all others. */
  readonly clientBytes: ConnectionBytes;
  /** `date: …`, with its line end. */
  readonly dateLine: string;
  readonly isClosing: boolean;
  /** In which requests are served that clients without a key have sent before their turn. */
  readonly strangerTurns: Turns;
  serve(request: IncomingRequest): HttpResponse | Upgrade | Promise<HttpResponse | Upgrade>;
  refuse(fault: RequestFault): WholeResponse;
  /** A bug of ours. The connection that it happened on is cut off: nobody knows what its client has heard. */
  fault(thrown: unknown): void;
  /** It is owed nothing more; what it still sends is thrown away. */
  ended(guest: ManagedConnection): void;
  left(guest: ManagedConnection): void;
}

/** A connection, for whoever looks after all of them. */
export interface ManagedConnection extends Admitted {
  /** Once in a while: whoever has kept us waiting for too long has to go. */
  look(nowMs: number): void;
  /** The process ends: idle connections go at once, the others with their answer. */
  retire(): void;
  /** The process ends now. */
  cut(): void;
}
