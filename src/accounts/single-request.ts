/** A single request outside of a client's request, such as a probe. Only the body of a success is read. */

import { joinParts, type Part } from "../base/parts.ts";
import type {
  HttpClient,
  HttpFailure,
  OutgoingRequest,
  ResponseHeaders,
} from "../net/http-client/contract.ts";
import { unpack } from "./decompress.ts";

interface SingleRequestLimits {
  readonly timeoutMs: number;
  /** Maximum number of response bytes that are read. */
  readonly bytesMax: number;
}

export type SingleReplyFailure = HttpFailure["kind"] | "late";

export type SingleReply =
  /** `body` is null if the status is an error, or if the body is too large or late. */
  | { kind: "responded"; status: number; contentType: string | null; body: Uint8Array | null }
  | { kind: "failed"; failure: SingleReplyFailure };

export function sendSingleRequest(
  http: HttpClient,
  request: OutgoingRequest,
  { timeoutMs, bytesMax }: SingleRequestLimits,
): Promise<SingleReply> {
  return new Promise((resolve) => {
    let status = 0;
    let headersReceived: ResponseHeaders | null = null;
    const pieces: Part[] = [];
    let bytes = 0;
    const finish = (reply: SingleReply) => {
      clearTimeout(timer);
      exchange.abort();
      resolve(reply);
    };
    const finishWithResponse = (body: Uint8Array | null) =>
      finish({ kind: "responded", status, contentType: headersReceived?.get("content-type") ?? null, body });
    const exchange = http.send(request, {
      head(code, received) {
        status = code;
        headersReceived = received;
        // The status of an error is sufficient, and the upstream's text must not be shown.
        if (code < 200 || code >= 300) finishWithResponse(null);
      },
      data(piece) {
        bytes += piece.end - piece.start;
        if (bytes > bytesMax) finishWithResponse(null);
        else pieces.push(piece);
      },
      end: () => {
        const encoding = headersReceived?.get("content-encoding") ?? null;
        void unpack(joinParts(pieces), encoding, bytesMax).then(finishWithResponse);
      },
      fail: ({ kind }) => finish({ kind: "failed", failure: kind }),
    });
    const timer = setTimeout(() => {
      if (headersReceived === null) finish({ kind: "failed", failure: "late" });
      else finishWithResponse(null);
    }, timeoutMs);
  });
}
