/** The interface of the HTTP client: requests, response handlers and failures. */

import type { HeaderReader as AnswerHeaders } from "../wire/http-fields.ts";
import type { Part } from "../wire/parts.ts";
import type { DialTarget } from "./dial.ts";

export type { HeaderReader as AnswerHeaders } from "../wire/http-fields.ts";

export interface HttpClient {
  /** Starts the exchange at once and reports the response and all failures to `handler`. It never throws. */
  send(request: OutgoingRequest, handler: ResponseHandler): HttpExchange;
  /** Closes idle connections now, and the others after their current exchange. */
  close(): void;
}

export interface OutgoingRequest {
  readonly target: DialTarget;
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  /** Complete lines, each terminated by CR LF, without host, content-length, transfer-encoding and connection. */
  readonly headers: string;
  /** Parts must stay unchanged until the exchange ends, because long parts are not copied. */
  readonly body: readonly Part[] | StreamedBody | null;
}

/** A body that is too large for memory. */
export interface StreamedBody {
  /** Null: sent in chunks. */
  readonly contentLength: number | null;
  /**
   * Called once each time the body is sent. An exception fails the exchange, so a body that can be read only once may
   * throw at the second call.
   */
  open(): ReadableStream<Uint8Array>;
}

/**
 * Never called during `send`; it may be called during `resume`. An exception ends the exchange as `failed` and
 * affects no other exchange.
 */
export interface ResponseHandler {
  /** The final status and headers; 1xx are skipped. */
  head(status: number, headers: AnswerHeaders): void;
  /** A piece of the body without its chunk framing. The handler may keep the bytes: each read has its own memory. */
  data(piece: Part): void;
  /**
   * The response is complete. Unless the exchange is aborted, exactly one of `end` and `failed` is called, as the
   * last call.
   */
  end(): void;
  failed(failure: HttpFailure): void;
}

export interface HttpExchange {
  /** Whether any part of the request was written. */
  readonly hasBegun: boolean;
  /**
   * Stops all calls until `resume`. At most the bytes of one read are buffered, then TCP back-pressure slows the
   * upstream.
   */
  pause(): void;
  resume(): void;
  /**
   * Ends the exchange and closes its connection. The handler receives no further call. Has no effect after the end.
   */
  abort(): void;
}

/**
 * - `refused`: no connection was established, nothing was sent
 * - `tls`: no trusted connection was established, nothing was sent
 * - `connect_timeout`: neither was established in time
 * - `reset`: the connection broke after the request, or a part of it, was sent
 * - `bad_http`: the received bytes are not HTTP/1, or the request is invalid
 */
export interface HttpFailure {
  readonly kind: "refused" | "tls" | "reset" | "connect_timeout" | "bad_http";
  /** For operators: no secrets. */
  readonly reason: string;
}
