/** What the client promises, and what it asks of whoever takes the answers. */

import type { HeaderReader as AnswerHeaders } from "../wire/http-fields.ts";
import type { Part } from "../wire/parts.ts";
import type { DialTarget } from "./dial.ts";

export type { HeaderReader as AnswerHeaders } from "../wire/http-fields.ts";

export interface HttpClient {
  /** Begins at once. What comes back is told to `taker`, what goes wrong too: this never throws. */
  send(request: OutgoingRequest, taker: ResponseHandler): HttpExchange;
  /** Idle connections are closed, now and after each exchange that is still under way. */
  close(): void;
}

export interface OutgoingRequest {
  readonly target: DialTarget;
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** Complete lines, each ended by CR LF, without host, content-length, transfer-encoding and connection. */
  readonly headers: string;
  /** Parts must stay as they are until the exchange is over: long ones are not copied. */
  readonly body: readonly Part[] | StreamedBody | null;
}

/** A body too large for memory. */
export interface StreamedBody {
  /** Null: sent in chunks. */
  readonly contentLength: number | null;
  /** Once for each time the body is sent. What it throws fails the exchange, so a body that cannot be had twice may. */
  open(): ReadableStream<Uint8Array>;
}

/**
 * Never called within `send`; within `resume` it may be. What it throws ends the exchange as `failed`, and touches
 * no other exchange.
 */
export interface ResponseHandler {
  /** The final status and headers; 1xx are skipped. */
  head(status: number, headers: AnswerHeaders): void;
  /** A piece of the body, out of its chunks. The bytes are the taker's to keep: each read has memory of its own. */
  data(piece: Part): void;
  /** The answer is complete. This or `failed` is the last call, and comes exactly once unless aborted. */
  end(): void;
  failed(failure: HttpFailure): void;
}

export interface HttpExchange {
  /** Something of the request has been written. */
  readonly hasBegun: boolean;
  /** No more calls until `resume`. At most what one read brought is held, then TCP slows the upstream. */
  pause(): void;
  resume(): void;
  /** Ends it now, and its connection. The taker hears nothing more. After the end nothing happens. */
  abort(): void;
}

/**
 * - `refused`: no connection came to be, nothing was sent
 * - `tls`: no trusted connection came to be, nothing was sent
 * - `connect_timeout`: neither came to be in time
 * - `reset`: the connection broke after the request, or part of it, was sent
 * - `bad_http`: what came is not HTTP/1, or what was to be sent
 */
export interface HttpFailure {
  readonly kind: "refused" | "tls" | "reset" | "connect_timeout" | "bad_http";
  /** For operators: no secrets. */
  readonly reason: string;
}
