/** Bodies whose memory is counted: read when there is room for them. */

import { freeBytes, writeBytes } from "../../net/wire/bytes.ts";
import type { HttpBody } from "../../net/wire/http-message.ts";
import { type Part, wholeBytesPart } from "../../net/wire/parts.ts";
import type { BodyReservation } from "./body-budget.ts";
import { type BodyLimits, gatherChunks, pumpBody } from "./body-intake.ts";
import { aborted, type BodyRefusal, noMemory } from "./body-refusal.ts";
import { bringFrom, type Encoding, unpackedBytesMax, unpackTo } from "./content-encoding.ts";

/** While others wait for the room that it holds, a body has to come at 2 Mbit a second. */
const CROWDED_BYTES_PER_SECOND_MIN = 256_000;

/** The least that a body of unknown length takes, so that it does not ask for each chunk. */
const GROWN_BYTES_MIN = 64 * 1024;

/** A body that is not counted holds nothing; its array ends with it. */
export type BodyResult = Part | CountedBody | BodyRefusal;

export interface CountedBody {
  readonly ok: true;
  /** Ends where its array does; the request's head may stand before it there. */
  readonly bytes: Uint8Array;
  /** To be released when nobody needs the bytes any more. */
  readonly held: BodyReservation;
}

/** A body that is refused, or turns out to be short, has given back its room by then. */
export async function readLargeBody(
  body: HttpBody,
  encoding: Encoding | null,
  limits: BodyLimits,
  held: BodyReservation,
): Promise<BodyResult> {
  let isKept = false;
  try {
    const { length } = body;
    const sent = await (length === null
      ? readGrowing(body, limits, held)
      : readDeclared(body, length, limits, held));
    const isPacked = sent instanceof Uint8Array && encoding !== null;
    const plain = isPacked ? await unpacked(sent, encoding, limits, held) : sent;
    if (!(plain instanceof Uint8Array)) return plain;
    if (plain.length <= limits.uncountedBytesMax) return wholeBytesPart(plain);
    isKept = true;
    held.shrinkTo(plain.length);
    return { ok: true, bytes: plain, held };
  } finally {
    if (!isKept) held.release();
  }
}

/** Nothing is read before there is room for all of it. */
async function readDeclared(
  body: HttpBody,
  length: number,
  limits: BodyLimits,
  held: BodyReservation,
): Promise<Uint8Array | BodyRefusal> {
  const refused = await makeRoom(held, length);
  if (refused !== null) return refused;
  const bytes = Buffer.allocUnsafeSlow(length);
  let at = 0;
  const take = (chunk: Uint8Array) => {
    at = writeBytes(bytes, at, chunk);
    giveBack(chunk);
    return true;
  };
  const refusal = await pumpBody(body, limits, take, () => slowestRate(held, limits));
  if (refusal === "stopped") throw new Error("nothing asked to stop");
  if (refusal === null) return bytes;
  freeBytes(bytes);
  return refusal;
}

/** One that does not say how long it is takes twice the room whenever it needs more. */
async function readGrowing(
  body: HttpBody,
  limits: BodyLimits,
  held: BodyReservation,
): Promise<Uint8Array | BodyRefusal> {
  const growing = gatherGrowing(held, 0, limits.bytesMax);
  const refusal = await pumpBody(body, limits, growing.take, () => slowestRate(held, limits));
  return growing.end(refusal);
}

/** Gathers chunks while there is room for them beside the `besideBytes` that are held already. */
function gatherGrowing(held: BodyReservation, besideBytes: number, bytesMax: number) {
  const gathered = gatherChunks();
  let refused: BodyRefusal | null = null;
  const grow = async (bytes: number) => {
    const wanted = Math.min(Math.max(GROWN_BYTES_MIN, 2 * bytes), bytesMax);
    refused = await makeRoom(held, besideBytes + wanted);
    return refused === null;
  };
  return {
    take(chunk: Uint8Array): boolean | Promise<boolean> {
      const bytes = gathered.add(chunk);
      return besideBytes + bytes <= held.bytes || grow(bytes);
    },
    end(refusal: BodyRefusal | "stopped" | null): BodyRefusal | Promise<Uint8Array> {
      if (refusal === "stopped") return refused ?? aborted();
      return refusal ?? gathered.takeInTurns(giveBack);
    },
  };
}

function slowestRate({ room, bytes }: BodyReservation, { bytesPerSecondMin }: BodyLimits): number {
  return bytes > 0 && room.isCrowded() ? CROWDED_BYTES_PER_SECOND_MIN : bytesPerSecondMin;
}

/** How long it becomes is not known beforehand: it takes more room as it grows. */
async function unpacked(
  packed: Uint8Array,
  encoding: Encoding,
  limits: BodyLimits,
  held: BodyReservation,
): Promise<Uint8Array | BodyRefusal> {
  const bytesMax = Math.min(limits.bytesMax, unpackedBytesMax(packed.length, limits));
  const growing = gatherGrowing(held, packed.length, bytesMax);
  const refusal = await unpackTo(encoding, limits, bringFrom(packed), growing.take);
  freeBytes(packed);
  return growing.end(refusal);
}

async function makeRoom(held: BodyReservation, bytes: number): Promise<BodyRefusal | null> {
  const found = await held.growTo(bytes);
  if (found === "room") return null;
  return found === "left" ? aborted() : noMemory(held.room.retryAfterSeconds());
}

/** Frees the bytes that were copied, unless the request's head stands before them, which somebody may still read. */
function giveBack(chunk: Uint8Array): void {
  if (chunk.byteOffset === 0) freeBytes(chunk);
}
