/**
 * Reads a request body within its limits of size and speed, and a large one only when there is room. The rest of a
 * rejected body stays unread: the server discards it in constant memory, so that a client that sends its whole body
 * first still receives the response.
 */

import { freeBytes } from "../../base/bytes.ts";
import { type MaybePromise, whenReady } from "../../base/maybe-promise.ts";
import { type Part, partBytes, wholeBytesPart } from "../../base/parts.ts";
import type { HttpBody, IncomingHttpRequest } from "../../net/wire/http-message.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { BodyBudget, BodyOwner, BodyReservation, ReservationResult } from "./body-budget.ts";
import { openBodyMemory, SMALL_BODY_BYTES_MAX } from "./body-memory.ts";
import { type BodyLimits, readWhole } from "./body-reader.ts";
import { aborted, type BodyRejection, noMemory, tooLarge, unsupportedEncoding } from "./body-rejection.ts";
import { parseContentEncoding } from "./content-encoding.ts";
import { type BodyResult, readLargeBody } from "./large-body.ts";

/**
 * Called after an HTTP request has ended, so that the next body reuses memory that is still in the cache. Not for
 * background responses, whose input may be counted later.
 */
export function freeBody({ inputText, background }: Pick<ModelRequest, "inputText" | "background">): void {
  if (inputText.kind === "json" && !background) freeBytes(inputText.body.bytes);
}

/** After the last use of a request: frees its body in memory, and on disk if it is there. */
export function disposeBody(request: Pick<ModelRequest, "body" | "inputText" | "background">): void {
  void request.body.dispose();
  freeBody(request);
}

/** Longer bodies are read only if the caller's limits allow the request. */
export const COSTLY_BODY_BYTES_MIN = 64 * 1024;

/** Also true for a body without a declared length, and for a compressed one. */
export function isCostlyBody({ body, headers }: IncomingHttpRequest): boolean {
  if (body === null) return false;
  return body.length === null || body.length > COSTLY_BODY_BYTES_MIN || headers.has("content-encoding");
}

export function readBody(
  request: IncomingHttpRequest,
  limits: BodyLimits,
  budget: BodyBudget,
  owner: BodyOwner,
): MaybePromise<BodyResult> {
  const encoding = parseContentEncoding(request.headers.get("content-encoding"));
  if (encoding === undefined) return unsupportedEncoding();
  const { body } = request;
  if (body === null) return wholeBytesPart(new Uint8Array(0));
  const { length } = body;
  if (length !== null && length > limits.bytesMax) return tooLarge(limits.bytesMax);
  if (encoding === null && length !== null && length <= SMALL_BODY_BYTES_MAX) {
    if (length <= limits.uncountedBytesMax || limits.smallBudget === undefined) {
      return readWhole(body, limits);
    }
    return readSmallBody(body, length, limits, limits.smallBudget.open(owner, request));
  }
  return readLargeBody(
    body,
    encoding,
    limits,
    openBodyMemory({ small: limits.smallBudget, large: budget }, owner, request),
  );
}

/** Synchronous in the usual case: there is room and the whole body has arrived. */
function readSmallBody(
  body: HttpBody,
  length: number,
  limits: BodyLimits,
  reservation: BodyReservation,
): MaybePromise<BodyResult> {
  const result = reservation.growTo(length);
  if (result === "room") {
    return whenReady(readWhole(body, limits), (read) => countedResult(read, reservation));
  }
  return readAfterWait(body, result, limits, reservation);
}

async function readAfterWait(
  body: HttpBody,
  waiting: MaybePromise<ReservationResult>,
  limits: BodyLimits,
  reservation: BodyReservation,
): Promise<BodyResult> {
  const result = await waiting;
  if (result === "room") return countedResult(await readWhole(body, limits), reservation);
  return result === "left" ? aborted() : noMemory(reservation.budget.retryAfterSeconds());
}

function countedResult(read: Part | BodyRejection, reservation: BodyReservation): BodyResult {
  if (!("ok" in read)) return { ok: true, bytes: partBytes(read), reservation };
  reservation.release();
  return read;
}
