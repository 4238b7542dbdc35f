/**
 * Reads a request's body within a size and a pace, and a large one when there is room for it. A refusal leaves the rest
 * of the body unread: the server throws it away in flat memory, so that a client that sends all of it first still gets
 * the answer.
 */

import { freeBytes } from "../../net/wire/bytes.ts";
import type { HttpBody, IncomingHttpRequest } from "../../net/wire/http-message.ts";
import { type Part, partBytes, wholeBytesPart } from "../../net/wire/parts.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { BodyBudget, BodyOwner, BodyReservation, ReservationResult } from "./body-budget.ts";
import { type BodyLimits, takeWhole } from "./body-intake.ts";
import { openBodyMemory, SMALL_BODY_BYTES_MAX } from "./body-memory.ts";
import { aborted, type BodyRefusal, noMemory, tooLarge, unsupportedEncoding } from "./body-refusal.ts";
import { parseContentEncoding } from "./content-encoding.ts";
import { type BodyResult, readLargeBody } from "./large-body.ts";

/**
 * After the end of a request that came by HTTP: the next body finds memory that is still warm. Not of one that goes on
 * in the background, which may be counted later.
 */
export function freeBody({ inputText, background }: Pick<ModelRequest, "inputText" | "background">): void {
  if (inputText.kind === "json" && !background) freeBytes(inputText.body.bytes);
}

/** Longer bodies are read only for callers whose limits allow the request. */
export const COSTLY_BODY_BYTES_MIN = 64 * 1024;

/** Also a body that does not declare its length, or that becomes longer when it is unpacked. */
export function isCostlyBody({ body, headers }: IncomingHttpRequest): boolean {
  if (body === null) return false;
  return body.length === null || body.length > COSTLY_BODY_BYTES_MIN || headers.has("content-encoding");
}

export function readBody(
  request: IncomingHttpRequest,
  limits: BodyLimits,
  room: BodyBudget,
  owner: BodyOwner,
): BodyResult | Promise<BodyResult> {
  const encoding = parseContentEncoding(request.headers.get("content-encoding"));
  if (encoding === undefined) return unsupportedEncoding();
  const { body } = request;
  if (body === null) return wholeBytesPart(new Uint8Array(0));
  const { length } = body;
  if (length !== null && length > limits.bytesMax) return tooLarge(limits.bytesMax);
  if (encoding === null && length !== null && length <= SMALL_BODY_BYTES_MAX) {
    if (length <= limits.uncountedBytesMax || limits.smallRoom === undefined) {
      return takeWhole(body, limits);
    }
    return readSmallBody(body, length, limits, limits.smallRoom.open(owner, request));
  }
  return readLargeBody(
    body,
    encoding,
    limits,
    openBodyMemory({ small: limits.smallRoom, large: room }, owner, request),
  );
}

/** At once where there is room and all of it is here, as is usual. */
function readSmallBody(
  body: HttpBody,
  length: number,
  limits: BodyLimits,
  held: BodyReservation,
): BodyResult | Promise<BodyResult> {
  const found = held.growTo(length);
  if (found === "room") {
    const whole = takeWhole(body, limits);
    return whole instanceof Promise ? whole.then((read) => counted(read, held)) : counted(whole, held);
  }
  return readWhenThereIsRoom(body, found, limits, held);
}

async function readWhenThereIsRoom(
  body: HttpBody,
  waiting: ReservationResult | Promise<ReservationResult>,
  limits: BodyLimits,
  held: BodyReservation,
): Promise<BodyResult> {
  const found = await waiting;
  if (found === "room") return counted(await takeWhole(body, limits), held);
  return found === "left" ? aborted() : noMemory(held.room.retryAfterSeconds());
}

function counted(read: Part | BodyRefusal, held: BodyReservation): BodyResult {
  if (!("ok" in read)) return { ok: true, bytes: partBytes(read), held };
  held.release();
  return read;
}
