/** The interface of the HTTP client: requests, response sinks and failures. */

import type { Part } from "../../base/parts.ts";
import type { Backpressure, BodySink } from "../wire/body-sink.ts";
import type { HeaderReader as ResponseHeaders } from "../wire/http-fields.ts";
import type { DialTarget } from "./dial.ts";

export type { HeaderReader as ResponseHeaders } from "../wire/http-fields.ts";

export interface HttpClient {
  /** Starts the exchange at once and passes the response and all failures to `sink`. It never throws. */
  send(request: OutgoingRequest, sink: ResponseSink): HttpExchange;
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
  /** Called immediately before the first byte is written, for each connection that the request is written to. */
  readonly beforeWrite?: (() => void) | null;
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
 * Receives a response: its head, then the pieces of its body without their chunk framing. The sink may keep the bytes
 * of a piece, because each read has its own memory.
 *
 * Never called during `send`; it may be called during `resume`. An exception fails the exchange and affects no other
 * exchange.
 */
export interface ResponseSink<Failure = HttpFailure> extends BodySink<Part, Failure> {
  /** The final status and headers; 1xx are skipped. Not called if the exchange fails before them. */
  head(status: number, headers: ResponseHeaders): void;
}

/**
 * An exchange in flight. `pause` stops all calls of the sink: at most the bytes of one read are buffered, then TCP
 * back-pressure slows the upstream. `abort` closes the connection.
 */
export interface HttpExchange extends Backpressure {
  /** Whether any part of the request was written. */
  readonly hasBegun: boolean;
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
