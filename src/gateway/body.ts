/**
 * Reads a request's body within a size and a pace. A refusal leaves the rest of the body unread: the server throws it
 * away in flat memory, so that a client that sends all of it first still gets the answer.
 */

import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, zstdDecompress } from "node:zlib";
import type { Alarms } from "../alarms.ts";
import type { ModelRequest } from "../interfaces/request.ts";
import { free } from "../wire/bytes.ts";
import type { HeaderReader } from "../wire/http-fields.ts";
import type { BodyRead, HttpBody, HttpRequest } from "../wire/http-message.ts";

export interface BodyLimits {
  /** Of the body as sent, and again of the body as decoded. */
  bytesMax: number;
  /** Silence; and, with the slowest rate below, the time for the whole. */
  idleTimeoutMs: number;
  alarms: Alarms;
}

export type BodyResult = { ok: true; bytes: Uint8Array } | BodyRefusal;

export interface BodyRefusal {
  ok: false;
  reason: "too_large" | "unsupported_encoding" | "bad_encoding" | "bad_framing" | "aborted" | "idle_timeout";
  /** A sentence for the client. */
  message: string;
}

/** Slower than this on the whole is a client that holds a connection, not one that sends. */
const RATE_BYTES_PER_MS_MIN = 4;

/** Up to here the body is taken in one piece: half the cost of the stream, but silence inside it is not seen. */
const WHOLE_BYTES_MAX = 1024 * 1024;

const SMALL_CHUNK_BYTES = 4 * 1024;
const ROOM_BYTES = 64 * 1024;

/** A chunk costs microseconds whatever its size, so a body cut into crumbs is refused. */
const CHUNKS_FREE = 16 * 1024;
const CHUNK_BYTES_MEAN_MIN = 64;

/**
 * After the end of a request that came by HTTP: the next body finds memory that is still warm. Not of one that goes on
 * in the background, which may be counted later.
 */
export function freeBody({ inputText, background }: Pick<ModelRequest, "inputText" | "background">): void {
  if (inputText.kind === "json" && !background) free(inputText.bytes);
}

export function readBody(request: HttpRequest, limits: BodyLimits): Promise<BodyResult> | BodyResult {
  const encoding = request.headers.get("content-encoding");
  const decode = encoding === null ? null : decoderOf(encoding);
  if (decode === undefined) return unsupportedEncoding();
  const { body } = request;
  if (body === null) return { ok: true, bytes: new Uint8Array(0) };
  if (body.length !== null && body.length > limits.bytesMax) return tooLarge(limits.bytesMax);

  const reading =
    body.length !== null && body.length <= WHOLE_BYTES_MAX
      ? readWhole(body, body.length, limits)
      : readChunks(body, limits);
  return decode === null ? reading : decoded(reading, decode, limits.bytesMax);
}

async function decoded(
  reading: Promise<BodyResult> | BodyResult,
  decode: Decode,
  bytesMax: number,
): Promise<BodyResult> {
  const read = await reading;
  return read.ok ? decode(read.bytes, bytesMax) : read;
}

function readWhole(body: HttpBody, declared: number, limits: BodyLimits): Promise<BodyResult> | BodyResult {
  const whole = body.whole();
  if (!(whole instanceof Promise)) return resultOf(whole);
  const { idleTimeoutMs, alarms } = limits;
  return new Promise((resolve) => {
    const tooLateMs = idleTimeoutMs + declared / RATE_BYTES_PER_MS_MIN;
    const late = alarms.set(tooLateMs, () => resolve(idle()));
    whole.then((read) => {
      alarms.cancel(late);
      resolve(resultOf(read));
    });
  });
}

function resultOf(read: BodyRead): BodyResult {
  return read instanceof Uint8Array ? { ok: true, bytes: read } : refusalOf(read);
}

function refusalOf(lost: Exclude<BodyRead, Uint8Array>): BodyRefusal {
  return lost.kind === "gone" ? aborted() : badFraming(lost.reason);
}

async function readChunks(body: HttpBody, limits: BodyLimits): Promise<BodyResult> {
  const gathered = gatherChunks();
  const refusal = await pumpBody(body, limits, (chunk) => gathered.add(chunk) >= 0);
  if (refusal === "stopped") throw new Error("nothing asked to stop");
  return refusal ?? { ok: true, bytes: gathered.take() };
}

export interface Gathered {
  /** Returns the bytes held. */
  add(chunk: Uint8Array): number;
  /** All of it in one piece; starts anew. */
  take(): Buffer;
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
    take() {
      closeRoom();
      const whole = Buffer.concat(pieces, bytes);
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
    if (waitedMs > idleTimeoutMs + bytes / RATE_BYTES_PER_MS_MIN) return idle();
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

/** True for a body that is what it says, without a Content-Encoding. */
export function isIdentity(headers: HeaderReader): boolean {
  const encoding = headers.get("content-encoding");
  return encoding === null || decoderOf(encoding) === null;
}

type Decode = (bytes: Uint8Array, bytesMax: number) => Promise<BodyResult>;

/** Each stops, in flat memory, when the output passes its cap. */
const DECODERS: ReadonlyMap<string, Decode> = new Map([
  ["gzip", decoder(promisify(gunzip), {})],
  ["x-gzip", decoder(promisify(gunzip), {})],
  ["deflate", decoder(promisify(inflate), {})],
  ["br", decoder(promisify(brotliDecompress), {})],
  // RFC 9659: no sender of this encoding may ask its reader for a window above 8 MiB.
  ["zstd", decoder(promisify(zstdDecompress), { params: { [constants.ZSTD_d_windowLogMax]: 23 } })],
]);

/** Null for none; undefined for one that is not known, or for several layers. */
function decoderOf(encoding: string): Decode | null | undefined {
  const name = encoding.trim().toLowerCase();
  return name === "" || name === "identity" ? null : DECODERS.get(name);
}

function decoder<Options extends object>(
  unpack: (bytes: Uint8Array, options: Options & { maxOutputLength: number }) => Promise<Uint8Array>,
  options: Options,
): Decode {
  return async (bytes, bytesMax) => {
    try {
      return { ok: true, bytes: await unpack(bytes, { ...options, maxOutputLength: bytesMax }) };
    } catch (thrown) {
      return codeOf(thrown) === "ERR_BUFFER_TOO_LARGE" ? tooLarge(bytesMax) : badEncoding();
    }
  };
}

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && "code" in thrown ? thrown.code : null;
}

function aborted(): BodyRefusal {
  return {
    ok: false,
    reason: "aborted",
    message: "The connection closed before the whole body had arrived.",
  };
}

function badFraming(reason: string): BodyRefusal {
  return {
    ok: false,
    reason: "bad_framing",
    message: `The request body does not follow its Transfer-Encoding: ${reason}.`,
  };
}

function tooLarge(bytesMax: number): BodyRefusal {
  return { ok: false, reason: "too_large", message: `The request body is larger than ${bytesMax} bytes.` };
}

function inCrumbs(): BodyRefusal {
  return { ok: false, reason: "too_large", message: "The request body is cut into too many small chunks." };
}

function idle(): BodyRefusal {
  return { ok: false, reason: "idle_timeout", message: "The request body arrived too slowly." };
}

function badEncoding(): BodyRefusal {
  return {
    ok: false,
    reason: "bad_encoding",
    message: "The request body is not what its Content-Encoding says.",
  };
}

export function unsupportedEncoding(): BodyRefusal {
  return {
    ok: false,
    reason: "unsupported_encoding",
    message: "Content-Encoding must be gzip, deflate, br or zstd (one of them, once), or absent.",
  };
}
