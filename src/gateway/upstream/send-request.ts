/** Sends a request to an account and receives a whole response or a stream. Rejections become an `UpstreamFailure`. */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { unpack } from "../../accounts/unpack.ts";
import { ApiError } from "../../errors.ts";
import type { AnswerHeaders } from "../../net/http-client/client.ts";
import { joinParts, type Part, partBytes, wholeBytesPart } from "../../net/wire/parts.ts";
import {
  type OutboundRequest,
  UpstreamCall,
  type UpstreamExchange,
  type UpstreamLine,
  type UpstreamListener,
} from "./upstream-call.ts";
import { failureByStatus } from "./upstream-failure.ts";

export type { Client, OutboundRequest, UpstreamExchange, UpstreamLine } from "./upstream-call.ts";

export type WholeResult =
  | { kind: "answered"; headers: AnswerHeaders; body: Part }
  | { kind: "failed"; failure: UpstreamFailure }
  /** The client disconnected. */
  | { kind: "left"; wasSent: boolean };

/** Resolves with the whole response, bounded in size. */
export function sendRequest(out: OutboundRequest, exchange: UpstreamExchange): Promise<WholeResult> {
  return new Promise((resolve) => new WholeListener(out, resolve).listen(exchange));
}

/** Classes, here and below, because a few objects per request are cheaper than closures. */
class WholeListener implements UpstreamListener {
  private readonly out: OutboundRequest;
  private readonly told: (whole: WholeResult) => void;
  private readonly body: BodyCollector;
  private line: UpstreamCall | null = null;
  private status = 0;
  private headers: AnswerHeaders = NO_HEADERS;

  constructor(out: OutboundRequest, resolve: (whole: WholeResult) => void) {
    this.out = out;
    this.told = resolve;
    this.body = new BodyCollector(out.responseBytesMax);
  }

  listen(exchange: UpstreamExchange): void {
    this.line = new UpstreamCall(this.out, exchange, this);
    this.line.start();
  }

  head(status: number, headers: AnswerHeaders): void {
    this.status = status;
    this.headers = headers;
    if (!isSuccess(status)) this.body.bytesMax = this.out.errorBytesMax;
  }

  data(piece: Part): void {
    if (this.body.add(piece)) return;
    this.line?.hangUp();
    this.end();
  }

  end(): void {
    const { out, status, headers } = this;
    const body = this.body.take();
    if (isSuccess(status)) this.told(readSuccess(headers, body, out.responseBytesMax));
    else this.failed(failureByStatus(status, headers, body && partBytes(body), out.nowMs()));
  }

  failed(failure: UpstreamFailure): void {
    this.told({ kind: "failed", failure });
  }

  left(wasSent: boolean): void {
    this.told({ kind: "left", wasSent });
  }
}

/** Receives the body of a streamed response. */
export interface StreamIntake {
  /** The intake owns the bytes. */
  data(piece: Part): void;
  end(): void;
  broke(failure: UpstreamFailure): void;
}

export interface StreamListener {
  /** The account has begun to respond. From now on events go to the returned intake. */
  begin(headers: AnswerHeaders, line: UpstreamLine): StreamIntake;
  /** The attempt failed before the response began. */
  failed(failure: UpstreamFailure): void;
  left(wasSent: boolean): void;
}

export function openStream(out: OutboundRequest, exchange: UpstreamExchange, listener: StreamListener): void {
  let intake: StreamIntake | null = null;
  const error = new BodyCollector(out.errorBytesMax);
  let status = 0;
  let headers = NO_HEADERS;
  const finishError = () => {
    const body = error.take();
    listener.failed(failureByStatus(status, headers, body && partBytes(body), out.nowMs()));
  };
  const line = new UpstreamCall(out, exchange, {
    head(responseStatus, resolve) {
      status = responseStatus;
      headers = resolve;
      if (!isSuccess(status)) return;
      line.stopDeadline();
      intake = listener.begin(resolve, line);
    },
    data(piece) {
      if (intake !== null) intake.data(piece);
      else if (!error.add(piece)) {
        line.hangUp();
        finishError();
      }
    },
    end() {
      if (intake !== null) intake.end();
      else finishError();
    },
    failed(failure) {
      if (intake !== null) intake.broke(failure);
      else listener.failed(failure);
    },
    left(wasSent) {
      if (intake !== null) intake.broke(CLIENT_LEFT);
      else listener.left(wasSent);
    },
  });
  line.start();
}

/** The failure of a stream whose client disconnected. The account is not at fault. */
export const CLIENT_LEFT = upstreamFailure("reset", "the client left");

export function clientGone(): ApiError {
  return new ApiError(
    "client_closed_request",
    "The client closed the connection before the answer was ready.",
  );
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function readSuccess(headers: AnswerHeaders, body: Part | null, bytesMax: number): WholeResult {
  if (body === null)
    return { kind: "failed", failure: upstreamFailure("too_large", "the answer was too large") };
  const encoding = headers.get("content-encoding");
  if (encoding === null) return { kind: "answered", headers, body };
  const plain = unpack(partBytes(body), encoding, bytesMax);
  if (plain !== null) return { kind: "answered", headers, body: wholeBytesPart(plain) };
  return {
    kind: "failed",
    failure: upstreamFailure("bad_answer", "packed too much, or in a way that cannot be opened"),
  };
}

const NOTHING = wholeBytesPart(new Uint8Array(0));

/** Collects a body. Most bodies arrive in one piece, which is not copied. */
class BodyCollector {
  bytesMax: number;
  private first: Part | null = null;
  private more: Part[] | null = null;
  private total = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** Returns false if the body exceeds its limit. */
  add(piece: Part): boolean {
    this.total += piece.end - piece.start;
    if (this.total > this.bytesMax) return false;
    if (this.first === null) this.first = piece;
    else if (this.more === null) this.more = [this.first, piece];
    else this.more.push(piece);
    return true;
  }

  /** Returns null if the body exceeded its limit. */
  take(): Part | null {
    if (this.total > this.bytesMax) return null;
    return this.more === null ? (this.first ?? NOTHING) : wholeBytesPart(joinParts(this.more));
  }
}

const NO_HEADERS: AnswerHeaders = { get: () => null, has: () => false };
