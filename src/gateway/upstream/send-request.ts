/** Asking an account: for a whole answer, or for a stream. A refusal becomes a named failure. */

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
  /** The client is gone. */
  | { kind: "left"; wasSent: boolean };

/** The whole answer, bounded. */
export function sendRequest(out: OutboundRequest, exchange: UpstreamExchange): Promise<WholeResult> {
  return new Promise((resolve) => new WholeListener(out, resolve).listen(exchange));
}

/** Classes, here and below, so that a request costs a few objects and no closures. */
class WholeListener implements UpstreamListener {
  private readonly out: OutboundRequest;
  private readonly told: (whole: WholeResult) => void;
  private readonly body: Gathering;
  private line: UpstreamCall | null = null;
  private status = 0;
  private headers: AnswerHeaders = NO_HEADERS;

  constructor(out: OutboundRequest, told: (whole: WholeResult) => void) {
    this.out = out;
    this.told = told;
    this.body = new Gathering(out.responseBytesMax);
  }

  listen(exchange: UpstreamExchange): void {
    this.line = new UpstreamCall(this.out, exchange, this);
    this.line.start();
  }

  head(status: number, headers: AnswerHeaders): void {
    this.status = status;
    this.headers = headers;
    if (!isGood(status)) this.body.bytesMax = this.out.errorBytesMax;
  }

  data(piece: Part): void {
    if (this.body.add(piece)) return;
    this.line?.hangUp();
    this.end();
  }

  end(): void {
    const { out, status, headers } = this;
    const body = this.body.take();
    if (isGood(status)) this.told(readGood(headers, body, out.responseBytesMax));
    else this.failed(failureByStatus(status, headers, body && partBytes(body), out.nowMs()));
  }

  failed(failure: UpstreamFailure): void {
    this.told({ kind: "failed", failure });
  }

  left(wasSent: boolean): void {
    this.told({ kind: "left", wasSent });
  }
}

/** Takes the body of a streamed answer. */
export interface StreamIntake {
  /** The bytes are the intake's to keep. */
  data(piece: Part): void;
  end(): void;
  broke(failure: UpstreamFailure): void;
}

export interface StreamListener {
  /** The account has begun to answer; from now on the intake hears of it. */
  begin(headers: AnswerHeaders, line: UpstreamLine): StreamIntake;
  /** The account did not get as far as answering. */
  failed(failure: UpstreamFailure): void;
  left(wasSent: boolean): void;
}

export function openStream(out: OutboundRequest, exchange: UpstreamExchange, listener: StreamListener): void {
  let intake: StreamIntake | null = null;
  const error = new Gathering(out.errorBytesMax);
  let status = 0;
  let headers = NO_HEADERS;
  const finishError = () => {
    const body = error.take();
    listener.failed(failureByStatus(status, headers, body && partBytes(body), out.nowMs()));
  };
  const line = new UpstreamCall(out, exchange, {
    head(answered, told) {
      status = answered;
      headers = told;
      if (!isGood(status)) return;
      line.stopDeadline();
      intake = listener.begin(told, line);
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

/** What a stream is broken by when nobody waits for it any more: no fault of the account's. */
export const CLIENT_LEFT = upstreamFailure("reset", "the client left");

export function clientGone(): ApiError {
  return new ApiError(
    "client_closed_request",
    "The client closed the connection before the answer was ready.",
  );
}

function isGood(status: number): boolean {
  return status >= 200 && status < 300;
}

function readGood(headers: AnswerHeaders, body: Part | null, bytesMax: number): WholeResult {
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

/** Most answers come in one piece, which then is not copied. */
class Gathering {
  bytesMax: number;
  private first: Part | null = null;
  private more: Part[] | null = null;
  private total = 0;

  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
  }

  /** False when there is more than allowed. */
  add(piece: Part): boolean {
    this.total += piece.end - piece.start;
    if (this.total > this.bytesMax) return false;
    if (this.first === null) this.first = piece;
    else if (this.more === null) this.more = [this.first, piece];
    else this.more.push(piece);
    return true;
  }

  /** Null when there was more than allowed. */
  take(): Part | null {
    if (this.total > this.bytesMax) return null;
    return this.more === null ? (this.first ?? NOTHING) : wholeBytesPart(joinParts(this.more));
  }
}

const NO_HEADERS: AnswerHeaders = { get: () => null, has: () => false };
