/** What an HTTP server takes and gives: the interface, without the implementation. */

import type { HeaderReader } from "./http-fields.ts";
import { type Part, wholePart } from "./parts.ts";

export interface IncomingHttpRequest {
  readonly method: string;
  readonly headers: HeaderReader;
  /** Fires when the client leaves. It is the connection's: whoever listens to it stops when the request is over. */
  readonly signal: AbortSignal;
  /** Null when there is none. */
  readonly body: HttpBody | null;
}

/** What was not asked for when the answer begins is thrown away; so is a long body that nobody asks for in time. */
export interface HttpBody {
  /** Null when it comes in chunks. */
  readonly length: number | null;
  /** How many bytes of it have arrived: for the deadline of a body that is read whole. */
  readonly receivedBytes: number;
  /**
   * All of it, at once where it is here already; its array ends with it. To be asked for once, and not beside `next`.
   */
  whole(): Part | BodyLoss | Promise<Part | BodyLoss>;
  /** The request waits before its body is read: until then nothing of the body is thrown away. */
  defer(): void;
  /** The next piece, or null at the end. Nothing more is taken from the network before it is asked for. */
  next(): Promise<Uint8Array | BodyLoss | null>;
}

/** `broken`: its framing is wrong, so that nobody knows where it ends. */
export type BodyLoss = { readonly kind: "gone" } | { readonly kind: "broken"; readonly reason: string };

/** Header lines, each ended by CR LF; those that frame the body and `date` are added when it is sent. */
export type HeaderLines = string;

/** Writes such lines. Names and values stand in our own code, or were checked: nothing here begins a line of its own. */
export class HeaderWriter {
  lines: HeaderLines;

  constructor(lines: HeaderLines = "") {
    this.lines = lines;
  }

  set(name: string, value: string): void {
    this.lines += `${name}: ${value}\r\n`;
  }
}

/** A whole answer. The parts of its body are put together where they leave. */
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
 * A whole answer whose bytes never change and are the same for every client. Connections that take it slowly share the
 * bytes, so that a client that asks for a long document and reads nothing occupies no memory of its own.
 */
export class SharedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;

  constructor(status: number, headers: Readonly<Record<string, string>>, bytes: Uint8Array) {
    this.status = status;
    this.headers = new Headers(headers);
    this.bytes = bytes;
  }
}

/** Where a client takes a stream from. */
export interface ClientSink {
  /**
   * The parts together are one piece, on its way at once; they may be used again afterwards. A promise when the client
   * does not keep up, until it has room again.
   */
  write(parts: readonly Part[]): Promise<unknown> | null;
  /** With the last piece, which may be empty. */
  end(last: readonly Part[]): void;
}

/** An answer that is made while it is sent. */
export class StreamedResponse {
  readonly headers: HeaderLines;
  readonly source: StreamSource;

  constructor(headers: HeaderLines, source: StreamSource) {
    this.headers = headers;
    this.source = source;
  }
}

export interface StreamSource {
  flowTo(sink: ClientSink): void;
  /** The client is gone before the end; also before it began. */
  leave(): void;
}

/** What handlers may answer: a `Response` where it is not worth the trouble of anything else. */
export type HttpResponse = WholeResponse | SharedAnswer | StreamedResponse | Response;
