/** Reads a body, whole or chunk by chunk, within its limits of size and speed. */

import { writeBytes } from "../../base/bytes.ts";
import type { Deadlines } from "../../base/deadlines.ts";
import { isPending, type MaybePromise } from "../../base/maybe-promise.ts";
import { TurnBudget } from "../../base/next-turn.ts";
import type { Part } from "../../base/parts.ts";
import type { BodyLoss, HttpBody } from "../../net/wire/http-message.ts";
import type { BodyBudget } from "./body-budget.ts";
import {
  aborted,
  type BodyRejection,
  badFraming,
  idle,
  inTooManyChunks,
  tooLarge,
} from "./body-rejection.ts";

export interface BodyReading {
  /** Shorter bodies are not counted against the budget. */
  readonly uncountedBytesMax: number;
  /** The lowest average speed. A slower client occupies the connection without really sending. */
  readonly bytesPerSecondMin: number;
  readonly unpackedRatioMax: number;
  readonly unpackedFreeBytes: number;
}

export interface BodyLimits extends BodyReading {
  /** Applies to the body as sent and again to the decoded body. */
  bytesMax: number;
  /** The longest pause. Together with the lowest speed it also bounds the time for the whole body. */
  idleTimeoutMs: number;
  deadlines: Deadlines;
  /** The memory budget for bodies up to 1 MiB. Without it these bodies are not counted. */
  smallBudget?: BodyBudget;
}

const SMALL_CHUNK_BYTES = 4 * 1024;
const BUFFER_BYTES = 64 * 1024;

/** A chunk costs microseconds at any size, so a body split into tiny chunks is rejected. */
const CHUNKS_FREE = 16 * 1024;
const CHUNK_BYTES_MEAN_MIN = 64;

/** Reads the body in one piece, at half the cost of the stream. */
export function readWhole(body: HttpBody, limits: BodyLimits): MaybePromise<Part | BodyRejection> {
  const whole = body.whole();
  return isPending(whole) ? readInTime(body, whole, limits) : orRejection(whole);
}

/** Checks the progress once per idle timeout. A body that made none since then, or is too slow, is rejected. */
function readInTime(
  body: HttpBody,
  whole: Promise<Part | BodyLoss>,
  { idleTimeoutMs, bytesPerSecondMin, deadlines }: BodyLimits,
): Promise<Part | BodyRejection> {
  return new Promise((resolve) => {
    let seenBytes = body.receivedBytes;
    let requiredBytes = 0;
    const checkProgress = () => {
      const { receivedBytes } = body;
      if (receivedBytes === seenBytes || receivedBytes < requiredBytes) {
        resolve(idle(bytesPerSecondMin));
        return;
      }
      seenBytes = receivedBytes;
      requiredBytes += (idleTimeoutMs / 1_000) * bytesPerSecondMin;
      deadline = deadlines.set(idleTimeoutMs, checkProgress);
    };
    let deadline = deadlines.set(idleTimeoutMs, checkProgress);
    whole.then((read) => {
      deadlines.cancel(deadline);
      resolve(orRejection(read));
    });
  });
}

function orRejection(whole: Part | BodyLoss): Part | BodyRejection {
  return "kind" in whole ? toRejection(whole) : whole;
}

function toRejection(lost: BodyLoss): BodyRejection {
  return lost.kind === "gone" ? aborted() : badFraming(lost.reason);
}

interface GatheredChunks {
  /** Returns the number of bytes held. */
  add(chunk: Uint8Array): number;
  /** Returns all bytes in one piece and resets. */
  take(): Buffer;
  /** The same in slices, for bodies that take long to copy. Calls `done` for each copied chunk. */
  takeInTurns(done: (chunk: Uint8Array) => void): Promise<Buffer>;
}

/** Small chunks are copied together: a body sent byte by byte must not become one object per byte. */
export function gatherChunks(): GatheredChunks {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  let buffer = Buffer.alloc(0);
  let used = 0;

  function flushBuffer(): void {
    if (used > 0) pieces.push(buffer.subarray(0, used));
    buffer = buffer.subarray(used);
    used = 0;
  }

  return {
    add(chunk) {
      bytes += chunk.length;
      if (chunk.length >= SMALL_CHUNK_BYTES) {
        flushBuffer();
        pieces.push(chunk);
        return bytes;
      }
      if (used + chunk.length > buffer.length) {
        flushBuffer();
        buffer = Buffer.allocUnsafeSlow(BUFFER_BYTES);
      }
      buffer.set(chunk, used);
      used += chunk.length;
      return bytes;
    },
    take() {
      flushBuffer();
      const whole = Buffer.allocUnsafeSlow(bytes);
      let at = 0;
      for (const piece of pieces) at = writeBytes(whole, at, piece);
      pieces = [];
      bytes = 0;
      return whole;
    },
    async takeInTurns(done) {
      flushBuffer();
      const whole = Buffer.allocUnsafeSlow(bytes);
      const allPieces = pieces;
      pieces = [];
      bytes = 0;
      const budget = new TurnBudget();
      let at = 0;
      for (const piece of allPieces) {
        const { length } = piece;
        at = writeBytes(whole, at, piece);
        done(piece);
        const turn = budget.spend(length);
        if (turn !== null) await turn;
      }
      return whole;
    },
  };
}

/**
 * Passes every chunk of the body as sent to `take`, one at a time, so that a slow consumer applies back-pressure to the
 * client. `take` stops the reading by returning false. Errors of `take` are rethrown.
 */
export async function pumpBody(
  body: HttpBody,
  limits: BodyLimits,
  take: (chunk: Uint8Array) => boolean | Promise<boolean>,
  slowestRate = () => limits.bytesPerSecondMin,
): Promise<BodyRejection | "stopped" | null> {
  const { bytesMax, idleTimeoutMs } = limits;
  if (body.length !== null && body.length > bytesMax) return tooLarge(bytesMax);
  let bytes = 0;
  let chunks = 0;
  let waitedMs = 0;
  for (;;) {
    const startedMs = performance.now();
    const chunk = await nextChunk(body, limits);
    if (!(chunk instanceof Uint8Array)) return chunk;
    bytes += chunk.length;
    chunks++;
    waitedMs += performance.now() - startedMs;
    if (bytes > bytesMax) return tooLarge(bytesMax);
    if (chunks > CHUNKS_FREE + bytes / CHUNK_BYTES_MEAN_MIN) return inTooManyChunks();
    // Single bytes would reset the idle timer for ever, so the average speed is checked too.
    if (waitedMs > idleTimeoutMs + (1_000 * bytes) / slowestRate()) return idle(slowestRate());
    if (!(await take(chunk))) return "stopped";
  }
}

/** Returns null at the end of the body. */
async function nextChunk(
  body: HttpBody,
  { idleTimeoutMs, bytesPerSecondMin }: BodyLimits,
): Promise<Uint8Array | BodyRejection | null> {
  const { promise: deadline, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(resolve, idleTimeoutMs, "late");
  const read = await Promise.race([body.next(), deadline]);
  clearTimeout(timer);
  if (read === "late") return idle(bytesPerSecondMin);
  return read === null || read instanceof Uint8Array ? read : toRejection(read);
}
