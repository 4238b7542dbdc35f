/**
 * Reads a request's body within a size and a pace, and a large one when there is room for it. A refusal leaves the rest
 * of the body unread: the server throws it away in flat memory, so that a client that sends all of it first still gets
 * the answer.
 */

import type { ModelRequest } from "../interfaces/request.ts";
import { free } from "../wire/bytes.ts";
import type { HttpRequest } from "../wire/http-message.ts";
import { partOf } from "../wire/splice.ts";
import { type BodyLimits, takeWhole } from "./body-intake.ts";
import { tooLarge, unsupportedEncoding } from "./body-refusal.ts";
import type { BodyOwner, BodyRoom } from "./body-room.ts";
import { encodingOf } from "./content-encoding.ts";
import { type BodyResult, readLargeBody, SMALL_BODY_BYTES_MAX } from "./large-body.ts";

/**
 * After the end of a request that came by HTTP: the next body finds memory that is still warm. Not of one that goes on
 * in the background, which may be counted later.
 */
export function freeBody({ inputText, background }: Pick<ModelRequest, "inputText" | "background">): void {
  if (inputText.kind === "json" && !background) free(inputText.body.bytes);
}

/** Longer bodies are read only for callers whose limits allow the request. */
export const COSTLY_BODY_BYTES_MIN = 64 * 1024;

/** Also a body that does not declare its length, or that becomes longer when it is unpacked. */
export function isCostlyBody({ body, headers }: HttpRequest): boolean {
  if (body === null) return false;
  return body.length === null || body.length > COSTLY_BODY_BYTES_MIN || headers.has("content-encoding");
}

export function readBody(
  request: HttpRequest,
  limits: BodyLimits,
  room: BodyRoom,
  owner: BodyOwner,
): BodyResult | Promise<BodyResult> {
  const encoding = encodingOf(request.headers.get("content-encoding"));
  if (encoding === undefined) return unsupportedEncoding();
  const { body } = request;
  if (body === null) return partOf(new Uint8Array(0));
  if (body.length !== null && body.length > limits.bytesMax) return tooLarge(limits.bytesMax);
  if (encoding === null && body.length !== null && body.length <= SMALL_BODY_BYTES_MAX) {
    return takeWhole(body, body.length, limits);
  }
  return readLargeBody(body, encoding?.decode ?? null, limits, room.open(owner, request));
}
