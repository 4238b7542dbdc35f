/** Bodies that are large, or may turn out to be: read when there is room for them. */

import { free, put } from "../wire/bytes.ts";
import type { HttpBody } from "../wire/http-message.ts";
import { bytesOf, type Part, partOf } from "../wire/splice.ts";
import { type BodyLimits, gatherChunks, pumpBody, RATE_BYTES_PER_MS_MIN, takeWhole } from "./body-intake.ts";
import { aborted, type BodyRefusal, noRoom } from "./body-refusal.ts";
import type { Held } from "./body-room.ts";
import type { Decode } from "./content-encoding.ts";

/** Up to here a body needs no room. */
export const SMALL_BODY_BYTES_MAX = 1024 * 1024;

/** While others wait for the room that it holds, a body has to come at 2 Mbit a second. */
const CROWDED_RATE_BYTES_PER_MS_MIN = 256;

/** A packed body is expected to become so many times as long; if that is too little, so many times more. */
const UNPACKED_TIMES = 4;

/** A small body holds nothing; its array ends with it. */
export type BodyResult = Part | LargeBody | BodyRefusal;

export interface LargeBody {
  readonly ok: true;
  readonly bytes: Uint8Array;
  /** To be released when nobody needs the bytes any more. */
  readonly held: Held;
}

/** A body that is refused, or turns out to be small, has given back its room by then. */
export async function readLargeBody(
  body: HttpBody,
  decode: Decode | null,
  limits: BodyLimits,
  held: Held,
): Promise<BodyResult> {
  let isKept = false;
  try {
    const sent = await readAsSent(body, limits, held);
    const isPacked = sent instanceof Uint8Array && decode !== null;
    const plain = isPacked ? await unpacked(sent, decode, limits, held) : sent;
    if (!(plain instanceof Uint8Array)) return plain;
    if (plain.length <= SMALL_BODY_BYTES_MAX) return partOf(plain);
    isKept = true;
    held.shrinkTo(plain.length);
    return { ok: true, bytes: plain, held };
  } finally {
    if (!isKept) held.release();
  }
}

async function readAsSent(body: HttpBody, limits: BodyLimits, held: Held): Promise<Uint8Array | BodyRefusal> {
  const { length } = body;
  if (length === null) return readGrowing(body, limits, held);
  if (length > SMALL_BODY_BYTES_MAX) return readDeclared(body, length, limits, held);
  const whole = await takeWhole(body, length, limits);
  return "ok" in whole ? whole : bytesOf(whole);
}

/** Nothing is read before there is room for all of it. */
async function readDeclared(
  body: HttpBody,
  length: number,
  limits: BodyLimits,
  held: Held,
): Promise<Uint8Array | BodyRefusal> {
  const refused = await makeRoom(held, length);
  if (refused !== null) return refused;
  const bytes = Buffer.allocUnsafeSlow(length);
  let at = 0;
  const take = (chunk: Uint8Array) => {
    at = put(bytes, at, chunk);
    giveBack(chunk);
    return true;
  };
  const refusal = await pumpBody(body, limits, take, () => slowestRate(held));
  if (refusal === "stopped") throw new Error("nothing asked to stop");
  if (refusal === null) return bytes;
  free(bytes);
  return refusal;
}

/** One that does not say how long it is takes twice the room whenever it needs more. */
async function readGrowing(
  body: HttpBody,
  limits: BodyLimits,
  held: Held,
): Promise<Uint8Array | BodyRefusal> {
  const gathered = gatherChunks();
  let refused: BodyRefusal | null = null;
  const grow = async (bytes: number) => {
    refused = await makeRoom(held, Math.min(2 * bytes, limits.bytesMax));
    return refused === null;
  };
  const take = (chunk: Uint8Array) => {
    const bytes = gathered.add(chunk);
    return bytes <= Math.max(SMALL_BODY_BYTES_MAX, held.bytes) || grow(bytes);
  };
  const refusal = await pumpBody(body, limits, take, () => slowestRate(held));
  if (refusal === "stopped") return refused ?? aborted();
  return refusal ?? gathered.take(giveBack);
}

function slowestRate({ room, bytes }: Held): number {
  return bytes > 0 && room.isCrowded() ? CROWDED_RATE_BYTES_PER_MS_MIN : RATE_BYTES_PER_MS_MIN;
}

/** How long it becomes is not known beforehand: it takes room for the likely length first, and for more when needed. */
async function unpacked(
  packed: Uint8Array,
  decode: Decode,
  { bytesMax }: BodyLimits,
  held: Held,
): Promise<Uint8Array | BodyRefusal> {
  const packedBytes = held.bytes;
  let likely = Math.max(SMALL_BODY_BYTES_MAX, packed.length * UNPACKED_TIMES);
  for (;;) {
    const most = Math.min(likely, bytesMax);
    const refused = most > SMALL_BODY_BYTES_MAX ? await makeRoom(held, packedBytes + most) : null;
    if (refused !== null) return refused;
    const plain = await decode(packed, most);
    if (plain instanceof Uint8Array || plain.reason !== "too_large" || most === bytesMax) {
      free(packed);
      return plain;
    }
    likely *= UNPACKED_TIMES;
  }
}

async function makeRoom(held: Held, bytes: number): Promise<BodyRefusal | null> {
  const found = await held.growTo(bytes);
  if (found === "room") return null;
  return found === "left" ? aborted() : noRoom(held.room.retryAfterSeconds());
}

/** Frees the bytes that were copied, unless the request's head stands before them, which somebody may still read. */
function giveBack(chunk: Uint8Array): void {
  if (chunk.byteOffset === 0) free(chunk);
}
