/** Reads bodies whose memory is counted, when there is room for them. */

import { freeBytes, writeBytes } from "../../base/bytes.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import type { HttpBody } from "../../net/wire/http-message.ts";
import type { BodyReservation } from "./body-budget.ts";
import { type BodyLimits, gatherChunks, pumpBody } from "./body-reader.ts";
import { aborted, type BodyRejection, noMemory } from "./body-rejection.ts";
import { type Encoding, produceSlices, unpackedBytesMax, unpackTo } from "./content-encoding.ts";

/** While other bodies wait for its room, a body must arrive at 2 Mbit/s. */
const CROWDED_BYTES_PER_SECOND_MIN = 256_000;

/** The smallest step in which a body of unknown length reserves room, so that it does not reserve for each chunk. */
const GROWN_BYTES_MIN = 64 * 1024;

/** A body that is not counted has no reservation; its bytes end at the end of its array. */
export type BodyResult = Part | CountedBody | BodyRejection;

interface CountedBody {
  readonly ok: true;
  /** Ends at the end of its array. The head of the request may precede it there. */
  readonly bytes: Uint8Array;
  /** Release it when the bytes are no longer needed. */
  readonly reservation: BodyReservation;
}

/** A rejected body, and one too short to be counted, has already released its room. */
export async function readLargeBody(
  body: HttpBody,
  encoding: Encoding | null,
  limits: BodyLimits,
  reservation: BodyReservation,
): Promise<BodyResult> {
  let isCounted = false;
  try {
    const { length } = body;
    const sent = await (length === null
      ? readGrowing(body, limits, reservation)
      : readDeclared(body, length, limits, reservation));
    const isCompressed = sent instanceof Uint8Array && encoding !== null;
    const plain = isCompressed ? await decompress(sent, encoding, limits, reservation) : sent;
    if (!(plain instanceof Uint8Array)) return plain;
    if (plain.length <= limits.uncountedBytesMax) return wholeBytesPart(plain);
    isCounted = true;
    reservation.shrinkTo(plain.length);
    return { ok: true, bytes: plain, reservation };
  } finally {
    if (!isCounted) reservation.release();
  }
}

/** Nothing is read before there is room for the whole body. */
async function readDeclared(
  body: HttpBody,
  length: number,
  limits: BodyLimits,
  reservation: BodyReservation,
): Promise<Uint8Array | BodyRejection> {
  const rejection = await reserveBytes(reservation, length);
  if (rejection !== null) return rejection;
  const bytes = Buffer.allocUnsafeSlow(length);
  let at = 0;
  const take = (chunk: Uint8Array) => {
    at = writeBytes(bytes, at, chunk);
    freeChunk(chunk);
    return true;
  };
  const problem = await pumpBody(body, limits, take, () => slowestRate(reservation, limits));
  if (problem === "stopped") throw new Error("the body was cancelled without a reason");
  if (problem === null) return bytes;
  freeBytes(bytes);
  return problem;
}

/** A body of unknown length doubles its room whenever it needs more. */
async function readGrowing(
  body: HttpBody,
  limits: BodyLimits,
  reservation: BodyReservation,
): Promise<Uint8Array | BodyRejection> {
  const growing = collectGrowing(reservation, 0, limits.bytesMax);
  const problem = await pumpBody(body, limits, growing.take, () => slowestRate(reservation, limits));
  return growing.end(problem);
}

/** Collects chunks while there is room for them in addition to the `besideBytes` that are already held. */
function collectGrowing(reservation: BodyReservation, besideBytes: number, bytesMax: number) {
  const chunks = gatherChunks();
  let rejection: BodyRejection | null = null;
  const grow = async (bytes: number) => {
    const requiredBytes = Math.min(Math.max(GROWN_BYTES_MIN, 2 * bytes), bytesMax);
    rejection = await reserveBytes(reservation, besideBytes + requiredBytes);
    return rejection === null;
  };
  return {
    take(chunk: Uint8Array): boolean | Promise<boolean> {
      const bytes = chunks.add(chunk);
      return besideBytes + bytes <= reservation.bytes || grow(bytes);
    },
    end(problem: BodyRejection | "stopped" | null): BodyRejection | Promise<Uint8Array> {
      if (problem === "stopped") return rejection ?? aborted();
      return problem ?? chunks.takeInTurns(freeChunk);
    },
  };
}

function slowestRate({ budget, bytes }: BodyReservation, { bytesPerSecondMin }: BodyLimits): number {
  return bytes > 0 && budget.isContended() ? CROWDED_BYTES_PER_SECOND_MIN : bytesPerSecondMin;
}

/** The plain size is unknown beforehand, so the reservation grows during decompression. */
async function decompress(
  packed: Uint8Array,
  encoding: Encoding,
  limits: BodyLimits,
  reservation: BodyReservation,
): Promise<Uint8Array | BodyRejection> {
  const bytesMax = Math.min(limits.bytesMax, unpackedBytesMax(packed.length, limits));
  const growing = collectGrowing(reservation, packed.length, bytesMax);
  const problem = await unpackTo(encoding, limits, produceSlices(packed), growing.take);
  freeBytes(packed);
  return growing.end(problem);
}

async function reserveBytes(reservation: BodyReservation, bytes: number): Promise<BodyRejection | null> {
  const result = await reservation.growTo(bytes);
  if (result === "room") return null;
  return result === "left" ? aborted() : noMemory(reservation.budget.retryAfterSeconds());
}

/** Frees the copied bytes, unless the head of the request precedes them in the same array and may still be read. */
function freeChunk(chunk: Uint8Array): void {
  if (chunk.byteOffset === 0) freeBytes(chunk);
}
