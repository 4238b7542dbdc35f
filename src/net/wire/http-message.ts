/** The types that an HTTP handler receives and returns, without the server implementation. */

import { type Part, wholePart } from "../../base/parts.ts";
import type { Backpressure, BodySink } from "./body-sink.ts";
import type { HeaderReader } from "./http-fields.ts";

export interface IncomingHttpRequest {
  readonly method: string;
  readonly headers: HeaderReader;
  /** Aborted on a disconnect. It belongs to the connection: remove listeners at the end. */
  readonly signal: AbortSignal;
  /** Null when the request has no body. */
  readonly body: HttpBody | null;
}

/** A body that is still unread when the response begins is discarded. So is a long body that is not read in time. */
export interface HttpBody {
  /** Null for a chunked body. */
  readonly length: number | null;
  /** Bytes that have arrived so far, for the deadline of a body that is read whole. */
  readonly receivedBytes: number;
  /**
   * Returns the whole body, synchronously if it has arrived already. The body reaches to the end of the returned
   * array. Call it once, and do not combine it with `next`.
   */
  whole(): Part | BodyLoss | Promise<Part | BodyLoss>;
  /** The request has to wait before its body is read. Until then no part of the body is discarded. */
  defer(): void;
  /** Returns the next piece, or null at the end. No more bytes are read from the socket until this is called. */
  next(): Promise<Uint8Array | BodyLoss | null>;
}

/** `broken`: the framing is invalid, so the end of the body is unknown. */
export type BodyLoss = { readonly kind: "gone" } | { readonly kind: "broken"; readonly reason: string };

/** Header lines, each terminated by CR LF. The server adds the framing headers and `date`. */
export type HeaderLines = string;

/** Anything else would be cut to its low byte when it is written, and U+010A to a line feed. */
const PLAIN_VALUE = /^[ -$&-~]*$/;
const NOT_PLAIN = /[^ -$&-~]/gu;

/** Builds header lines. Values from the code or of checked characters are plain; names that people choose may not be. */
export class HeaderWriter {
  lines: HeaderLines;

  constructor(lines: HeaderLines = "") {
    this.lines = lines;
  }

  /** What is no printable ASCII is percent-encoded, and the percent sign too, so that each value can be decoded. */
  set(name: string, value: string): void {
    this.lines += `${name}: ${PLAIN_VALUE.test(value) ? value : percentEncode(value)}\r\n`;
  }
}

function percentEncode(value: string): string {
  return value.toWellFormed().replace(NOT_PLAIN, (character) => encodeURIComponent(character));
}

/** A complete response. The parts of its body are joined when they are written. */
export class WholeResponse {
  readonly status: number;
  readonly headers: HeaderLines;
  readonly body: readonly Part[];

  constructor(status: number, headers: HeaderLines, body: Uint8Array | readonly Part[]) {
    this.status = status;
    this.headers = headers;
    this.body = body instanceof Uint8Array ? wholePart(body) : body;
  }
}

/**
 * A complete response whose bytes never change and are the same for every client. Slow connections share the bytes,
 * so a client that requests a long document and reads nothing occupies no additional memory.
 */
export class SharedResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;

  constructor(status: number, headers: Readonly<Record<string, string>>, bytes: Uint8Array) {
    this.status = status;
    this.headers = new Headers(headers);
    this.bytes = bytes;
  }
}

/**
 * The client side of a streamed response. The parts of a piece are sent together and at once; the caller may reuse them
 * afterwards. The last piece may be empty. `fail` receives what was thrown: the client cannot know where the response
 * ends, so its connection is closed.
 */
export type StreamSink = BodySink<readonly Part[], unknown, readonly Part[]>;

/** A response that is produced while it is sent. */
export class StreamedResponse {
  readonly headers: HeaderLines;
  readonly source: StreamSource;

  constructor(headers: HeaderLines, source: StreamSource) {
    this.headers = headers;
    this.source = source;
  }
}

/**
 * The sender of a streamed response. The sink pauses it while the client reads too slowly. It is aborted when the client
 * disconnects before the end of the response, or before its start.
 */
export interface StreamSource extends Backpressure {
  /** Call it once. */
  flowTo(sink: StreamSink): void;
}

/** What a handler may return. A plain `Response` is for rare cases where speed does not matter. */
export type HttpResponse = WholeResponse | SharedResponse | StreamedResponse | Response;
