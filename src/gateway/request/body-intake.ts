/** How a body is taken in: whole, or chunk by chunk, within a size and a pace. */

import { writeBytes } from "../../net/wire/bytes.ts";
import type { Deadlines } from "../../net/wire/deadlines.ts";
import type { BodyLoss, HttpBody } from "../../net/wire/http-message.ts";
import { TurnBudget } from "../../net/wire/next-turn.ts";
import type { Part } from "../../net/wire/parts.ts";
import type { BodyBudget } from "./body-budget.ts";
import { aborted, type BodyRefusal, badFraming, idle, inTooManyChunks, tooLarge } from "./body-refusal.ts";

/** How bodies are read, whatever they are for. */
export interface BodyReading {
  /** Shorter bodies need no room. */
  readonly uncountedBytesMax: number;
  /** A client that is slower than this on average is holding the connection, not sending. */
  readonly bytesPerSecondMin: number;
  readonly unpackedRatioMax: number;
  readonly unpackedFreeBytes: number;
}

export interface BodyLimits extends BodyReading {
  /** Applies to the body as sent, and again to the body as decoded. */
  bytesMax: number;
  /** The longest silence. With the slowest rate below it also bounds the time for the whole body. */
  idleTimeoutMs: number;
  alarms: Deadlines;
  /** Memory for bodies of up to 1 MiB; without it these are not counted. */
  smallRoom?: BodyBudget;
}

const SMALL_CHUNK_BYTES = 4 * 1024;
const ROOM_BYTES = 64 * 1024;

/** A chunk costs microseconds whatever its size, so a body cut into crumbs is refused. */
const CHUNKS_FREE = 16 * 1024;
const CHUNK_BYTES_MEAN_MIN = 64;

/** In one piece: half the cost of the stream. */
export function takeWhole(
  body: HttpBody,
  limits: BodyLimits,
): Part | BodyRefusal | Promise<Part | BodyRefusal> {
  const whole = body.whole();
  return whole instanceof Promise ? inTime(body, whole, limits) : orRefusal(whole);
}

/** Looks at the progress once in each idle time-out: a body that pauses so long, or is too slow by then, is refused. */
function inTime(
  body: HttpBody,
  whole: Promise<Part | BodyLoss>,
  { idleTimeoutMs, bytesPerSecondMin, alarms }: BodyLimits,
): Promise<Part | BodyRefusal> {
  return new Promise((resolve) => {
    let seenBytes = body.receivedBytes;
    let requiredBytes = 0;
    const look = () => {
      const { receivedBytes } = body;
      if (receivedBytes === seenBytes || receivedBytes < requiredBytes) {
        resolve(idle(bytesPerSecondMin));
        return;
      }
      seenBytes = receivedBytes;
      requiredBytes += (idleTimeoutMs / 1_000) * bytesPerSecondMin;
      late = alarms.set(idleTimeoutMs, look);
    };
    let late = alarms.set(idleTimeoutMs, look);
    whole.then((read) => {
      alarms.cancel(late);
      resolve(orRefusal(read));
    });
  });
}

function orRefusal(whole: Part | BodyLoss): Part | BodyRefusal {
  return "kind" in whole ? refusalOf(whole) : whole;
}

function refusalOf(lost: BodyLoss): BodyRefusal {
  return lost.kind === "gone" ? aborted() : badFraming(lost.reason);
}

export interface GatheredChunks {
  /** Returns the bytes held. */
  add(chunk: Uint8Array): number;
  /** All of it in one piece; starts anew. */
  take(): Buffer;
  /** The same in slices, for bodies that take long to copy. Each chunk that was copied is `done` with. */
  takeInTurns(done: (chunk: Uint8Array) => void): Promise<Buffer>;
}

/** Small chunks are copied together: a body sent a byte at a time must not become an object a byte. */
export function gatherChunks(): GatheredChunks {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  let room = Buffer.alloc(0);
  let used = 0;

  function closeRoom(): void {
    if (used > 0) pieces.push(room.subarray(0, used));
    room = room.subarray(used);
    used = 0;
  }

  return {
    add(chunk) {
      bytes += chunk.length;
      if (chunk.length >= SMALL_CHUNK_BYTES) {
        closeRoom();
        pieces.push(chunk);
        return bytes;
      }
      if (used + chunk.length > room.length) {
        closeRoom();
        room = Buffer.allocUnsafeSlow(ROOM_BYTES);
      }
      room.set(chunk, used);
      used += chunk.length;
      return bytes;
    },
    take() {
      closeRoom();
      const whole = Buffer.allocUnsafeSlow(bytes);
      let at = 0;
      for (const piece of pieces) at = writeBytes(whole, at, piece);
      pieces = [];
      bytes = 0;
      return whole;
    },
    async takeInTurns(done) {
      closeRoom();
      const whole = Buffer.allocUnsafeSlow(bytes);
      const taken = pieces;
      pieces = [];
      bytes = 0;
      const budget = new TurnBudget();
      let at = 0;
      for (const piece of taken) {
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
 * Hands every chunk of the body as sent to `take`, one at a time, so that a slow taker slows the client.
 * `take` stops it by false. What `take` throws is passed on.
 */
export async function pumpBody(
  body: HttpBody,
  limits: BodyLimits,
  take: (chunk: Uint8Array) => boolean | Promise<boolean>,
  slowestRate = () => limits.bytesPerSecondMin,
): Promise<BodyRefusal | "stopped" | null> {
  const { bytesMax, idleTimeoutMs } = limits;
  if (body.length !== null && body.length > bytesMax) return tooLarge(bytesMax);
  let bytes = 0;
  let chunks = 0;
  let waitedMs = 0;
  for (;;) {
    const askedMs = performance.now();
    const chunk = await nextChunk(body, limits);
    if (!(chunk instanceof Uint8Array)) return chunk;
    bytes += chunk.length;
    chunks++;
    waitedMs += performance.now() - askedMs;
    if (bytes > bytesMax) return tooLarge(bytesMax);
    if (chunks > CHUNKS_FREE + bytes / CHUNK_BYTES_MEAN_MIN) return inTooManyChunks();
    // A byte now and then resets the idle timer for ever; the whole has to keep a pace too.
    if (waitedMs > idleTimeoutMs + (1_000 * bytes) / slowestRate()) return idle(slowestRate());
    if (!(await take(chunk))) return "stopped";
  }
}

/** Null at the end of the body. */
async function nextChunk(
  body: HttpBody,
  { idleTimeoutMs, bytesPerSecondMin }: BodyLimits,
): Promise<Uint8Array | BodyRefusal | null> {
  const { promise: late, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(resolve, idleTimeoutMs, "late");
  const read = await Promise.race([body.next(), late]);
  clearTimeout(timer);
  if (read === "late") return idle(bytesPerSecondMin);
  return read === null || read instanceof Uint8Array ? read : refusalOf(read);
}
