/** How a body is taken in: whole, or chunk by chunk, within a size and a pace. */

import type { Alarms } from "../alarms.ts";
import { put } from "../wire/bytes.ts";
import type { HttpBody, Lost } from "../wire/http-message.ts";
import type { Part } from "../wire/splice.ts";
import { aborted, type BodyRefusal, badFraming, idle, inCrumbs, tooLarge } from "./body-refusal.ts";

export interface BodyLimits {
  /** Applies to the body as sent, and again to the body as decoded. */
  bytesMax: number;
  /** The longest silence. With the slowest rate below it also bounds the time for the whole body. */
  idleTimeoutMs: number;
  alarms: Alarms;
}

/** A client that is slower than this on average is holding the connection, not sending. */
export const RATE_BYTES_PER_MS_MIN = 4;

const SMALL_CHUNK_BYTES = 4 * 1024;
const ROOM_BYTES = 64 * 1024;

/** A chunk costs microseconds whatever its size, so a body cut into crumbs is refused. */
const CHUNKS_FREE = 16 * 1024;
const CHUNK_BYTES_MEAN_MIN = 64;

/** In one piece: half the cost of the stream, but silence inside it is not seen. For short ones. */
export function takeWhole(
  body: HttpBody,
  declared: number,
  limits: BodyLimits,
): Part | BodyRefusal | Promise<Part | BodyRefusal> {
  const whole = body.whole();
  return whole instanceof Promise ? inTime(whole, declared, limits) : orRefusal(whole);
}

function inTime(
  whole: Promise<Part | Lost>,
  declared: number,
  { idleTimeoutMs, alarms }: BodyLimits,
): Promise<Part | BodyRefusal> {
  return new Promise((resolve) => {
    const tooLateMs = idleTimeoutMs + declared / RATE_BYTES_PER_MS_MIN;
    const late = alarms.set(tooLateMs, () => resolve(idle()));
    whole.then((read) => {
      alarms.cancel(late);
      resolve(orRefusal(read));
    });
  });
}

function orRefusal(whole: Part | Lost): Part | BodyRefusal {
  return "kind" in whole ? refusalOf(whole) : whole;
}

function refusalOf(lost: Lost): BodyRefusal {
  return lost.kind === "gone" ? aborted() : badFraming(lost.reason);
}

export interface Gathered {
  /** Returns the bytes held. */
  add(chunk: Uint8Array): number;
  /** All of it in one piece; starts anew. Each chunk that was copied is `done` with. */
  take(done?: (chunk: Uint8Array) => void): Buffer;
}

/** Small chunks are copied together: a body sent a byte at a time must not become an object a byte. */
export function gatherChunks(): Gathered {
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
    take(done) {
      closeRoom();
      const whole = Buffer.allocUnsafeSlow(bytes);
      let at = 0;
      for (const piece of pieces) {
        at = put(whole, at, piece);
        done?.(piece);
      }
      pieces = [];
      bytes = 0;
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
  { bytesMax, idleTimeoutMs }: BodyLimits,
  take: (chunk: Uint8Array) => boolean | Promise<boolean>,
  bytesPerMsMin = () => RATE_BYTES_PER_MS_MIN,
): Promise<BodyRefusal | "stopped" | null> {
  if (body.length !== null && body.length > bytesMax) return tooLarge(bytesMax);
  let bytes = 0;
  let chunks = 0;
  let waitedMs = 0;
  for (;;) {
    const askedMs = performance.now();
    const chunk = await nextChunk(body, idleTimeoutMs);
    if (!(chunk instanceof Uint8Array)) return chunk;
    bytes += chunk.length;
    chunks++;
    waitedMs += performance.now() - askedMs;
    if (bytes > bytesMax) return tooLarge(bytesMax);
    if (chunks > CHUNKS_FREE + bytes / CHUNK_BYTES_MEAN_MIN) return inCrumbs();
    // A byte now and then resets the idle timer for ever; the whole has to keep a pace too.
    if (waitedMs > idleTimeoutMs + bytes / bytesPerMsMin()) return idle();
    if (!(await take(chunk))) return "stopped";
  }
}

/** Null at the end of the body. */
async function nextChunk(body: HttpBody, idleTimeoutMs: number): Promise<Uint8Array | BodyRefusal | null> {
  const { promise: late, resolve } = Promise.withResolvers<"late">();
  const timer = setTimeout(resolve, idleTimeoutMs, "late");
  const read = await Promise.race([body.next(), late]);
  clearTimeout(timer);
  if (read === "late") return idle();
  return read === null || read instanceof Uint8Array ? read : refusalOf(read);
}
