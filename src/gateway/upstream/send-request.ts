/** Sends a request to an account and receives a whole response or a stream. Rejections become an `UpstreamFailure`. */

import { unpack } from "../../accounts/decompress.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import { joinPartsInTurns } from "../../base/next-turn.ts";
import { joinParts, type Part, partBytes, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { ResponseHeaders, ResponseSink } from "../../net/http-client/contract.ts";
import type { BodySink } from "../../net/wire/body-sink.ts";
import type { WholeResult } from "../whole-result.ts";
import type { UpstreamAttempt } from "./upstream-attempt.ts";
import { type OutboundRequest, type StreamCall, UpstreamCall } from "./upstream-call.ts";
import { failureByStatus } from "./upstream-failure.ts";

export type { Client, UpstreamAttempt } from "./upstream-attempt.ts";
export type { OutboundRequest } from "./upstream-call.ts";

/** Resolves with the whole response, bounded in size. */
export function sendRequest(out: OutboundRequest, attempt: UpstreamAttempt): Promise<WholeResult> {
  return new Promise((resolve) => new WholeResponseSink(out, attempt, resolve).start());
}

/** Classes, here and below, because a few objects per request are cheaper than closures. */
class WholeResponseSink implements ResponseSink<UpstreamFailure> {
  readonly #out: OutboundRequest;
  readonly #call: UpstreamCall;
  readonly #resolve: (whole: MaybePromise<WholeResult>) => void;
  readonly #body: BodyCollector;
  readonly #bytesMax: number;
  readonly #reserve: ((bytes: number) => boolean) | null;
  #status = 0;
  #headers: ResponseHeaders = NO_HEADERS;

  constructor(
    out: OutboundRequest,
    attempt: UpstreamAttempt,
    resolve: (whole: MaybePromise<WholeResult>) => void,
  ) {
    this.#out = out;
    this.#resolve = resolve;
    this.#bytesMax = attempt.responseBytesMax ?? out.responseBytesMax;
    this.#body = new BodyCollector(this.#bytesMax);
    this.#reserve = attempt.reserveResponse ?? null;
    this.#call = new UpstreamCall(out, attempt, this);
  }

  start(): void {
    this.#call.start();
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    this.#headers = headers;
    if (!isSuccess(status)) this.#body.bytesMax = this.#out.errorBytesMax;
  }

  data(piece: Part): void {
    if (this.#body.add(piece)) {
      if (this.#reserve === null || this.#reserve(this.#body.bytes)) return;
      this.#call.abort();
      this.fail(upstreamFailure("too_large", "there is no memory for the response"));
      return;
    }
    this.#call.abort();
    this.end();
  }

  end(): void {
    const status = this.#status;
    const headers = this.#headers;
    if (isSuccess(status))
      this.#resolve(whenReady(this.#body.take(), (body) => readSuccess(headers, body, this.#bytesMax)));
    else this.fail(failureByStatus(status, headers, this.#body.takeShort(), this.#out.nowMs()));
  }

  fail(failure: UpstreamFailure): void {
    this.#resolve({ kind: "failed", failure });
  }
}

export interface StreamReceiver {
  /** Returns why the response cannot be read as a stream, or null. It is aborted in the first case. */
  check(headers: ResponseHeaders): UpstreamFailure | null;
  /** Opens the sink of the body of a response that passed the check. */
  open(headers: ResponseHeaders, upstreamCall: StreamCall): BodySink<Part, UpstreamFailure>;
  /** The call failed before a sink was opened. */
  fail(failure: UpstreamFailure): void;
}

export function openStream(out: OutboundRequest, attempt: UpstreamAttempt, receiver: StreamReceiver): void {
  new StreamResponseSink(out, attempt, receiver).start();
}

class StreamResponseSink implements ResponseSink<UpstreamFailure> {
  readonly #out: OutboundRequest;
  readonly #call: UpstreamCall;
  readonly #receiver: StreamReceiver;
  /** Null until the head has arrived. */
  #body: BodySink<Part, UpstreamFailure> | null = null;

  constructor(out: OutboundRequest, attempt: UpstreamAttempt, receiver: StreamReceiver) {
    this.#out = out;
    this.#receiver = receiver;
    this.#call = new UpstreamCall(out, attempt, this);
  }

  start(): void {
    this.#call.start();
  }

  head(status: number, headers: ResponseHeaders): void {
    const receiver = this.#receiver;
    if (!isSuccess(status)) {
      this.#body = new ErrorBodySink(this.#out, this.#call, { status, headers, receiver });
      return;
    }
    const failure = receiver.check(headers);
    if (failure !== null) {
      this.#call.abort();
      receiver.fail(failure);
      return;
    }
    this.#call.stopDeadline();
    this.#body = receiver.open(headers, this.#call);
  }

  data(piece: Part): void {
    this.#body?.data(piece);
  }

  end(): void {
    this.#body?.end();
  }

  fail(failure: UpstreamFailure): void {
    (this.#body ?? this.#receiver).fail(failure);
  }
}

interface ErrorResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly receiver: StreamReceiver;
}

/** Reads the body of an error response and passes the failure that it describes to the receiver. */
class ErrorBodySink implements BodySink<Part, UpstreamFailure> {
  readonly #out: OutboundRequest;
  readonly #call: UpstreamCall;
  readonly #response: ErrorResponse;
  readonly #body: BodyCollector;

  constructor(out: OutboundRequest, call: UpstreamCall, response: ErrorResponse) {
    this.#out = out;
    this.#call = call;
    this.#response = response;
    this.#body = new BodyCollector(out.errorBytesMax);
  }

  data(piece: Part): void {
    if (this.#body.add(piece)) return;
    this.#call.abort();
    this.end();
  }

  end(): void {
    const { status, headers } = this.#response;
    this.fail(failureByStatus(status, headers, this.#body.takeShort(), this.#out.nowMs()));
  }

  fail(failure: UpstreamFailure): void {
    this.#response.receiver.fail(failure);
  }
}

export function clientGone(): ApiError {
  return new ApiError(
    "client_closed_request",
    "The client closed the connection before the response was ready.",
  );
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function readSuccess(
  headers: ResponseHeaders,
  body: Part | null,
  bytesMax: number,
): MaybePromise<WholeResult> {
  if (body === null)
    return { kind: "failed", failure: upstreamFailure("too_large", "the response is too large") };
  const encoding = headers.get("content-encoding");
  if (encoding === null) return { kind: "responded", headers, body };
  return unpack(partBytes(body), encoding, bytesMax).then((plain) =>
    plain === null
      ? { kind: "failed", failure: upstreamFailure("bad_answer", COMPRESSED_REASON) }
      : { kind: "responded", headers, body: wholeBytesPart(plain) },
  );
}

const COMPRESSED_REASON = "compressed too much, or with an unsupported encoding";

const NOTHING = wholeBytesPart(new Uint8Array(0));
/** Copying this many bytes takes a few milliseconds. */
const JOINED_AT_ONCE_MAX = 1024 * 1024;

/** Collects a body. Most bodies arrive in one read, which is not copied. */
class BodyCollector {
  bytesMax: number;
  readonly #before: Part[] = [];
  #last: Part | null = null;
  #total = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#total;
  }

  /** Returns false if the body exceeds its limit. */
  add(piece: Part): boolean {
    this.#total += piece.end - piece.start;
    if (this.#total > this.bytesMax) return false;
    const last = this.#last;
    // A long read arrives in several pieces.
    if (last?.bytes === piece.bytes && last.end === piece.start)
      this.#last = { bytes: last.bytes, start: last.start, end: piece.end };
    else {
      if (last !== null) this.#before.push(last);
      this.#last = piece;
    }
    return true;
  }

  /** Returns null if the body exceeded its limit. A long one is joined in turns of the event loop. */
  take(): MaybePromise<Part | null> {
    if (this.#total > this.bytesMax) return null;
    const last = this.#last ?? NOTHING;
    if (this.#before.length === 0) return last;
    const parts = [...this.#before, last];
    return this.#total > JOINED_AT_ONCE_MAX
      ? joinPartsInTurns(parts).then(wholeBytesPart)
      : wholeBytesPart(joinParts(parts));
  }

  /** The same for the body of an error, whose limit is low. */
  takeShort(): Uint8Array | null {
    return this.#total > this.bytesMax ? null : joinParts([...this.#before, this.#last ?? NOTHING]);
  }
}

const NO_HEADERS: ResponseHeaders = { get: () => null, has: () => false };
