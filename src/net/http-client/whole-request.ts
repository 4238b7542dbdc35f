/** Sends a request whose body is in memory with few writes and little copying. */

import { writeBytes } from "../../base/bytes.ts";
import { joinParts, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { type BatchedWriter, writeBatcher } from "../wire/write-batcher.ts";
import { encodeHead, type OutgoingHead } from "./request-head.ts";

interface ByteWriter {
  /** Returns the number of accepted bytes. */
  write(bytes: Uint8Array, from: number, to: number): number;
}

export interface RequestSender extends BatchedWriter {
  /** Called before the first byte is written here. The write batcher calls `send` instead. */
  beginWrite(): void;
}

/** Up to this size, head and body are copied together. A longer part is written directly. */
const TOGETHER_BYTES_MAX = 65_536;
/** A write copies into the kernel or does nothing, so one buffer serves all requests. */
const scratch = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX);

/** The parts that were not accepted. Null: `sender` sends the request at the end of the turn. */
export function writeRequest(
  out: ByteWriter,
  sender: RequestSender,
  head: OutgoingHead,
  body: readonly Part[],
): readonly Part[] | null {
  const { start, end } = head;
  const length = start.length + end.length + partsLength(body);
  if (length > TOGETHER_BYTES_MAX) {
    const parts = joinShortParts(head, body);
    sender.beginWrite();
    return writeParts(out, parts);
  }
  const at = writeBatcher.reserve(length);
  if (at >= 0) {
    writeBatcher.add(sender, putRequest(writeBatcher.bytes, at, head, body));
    return null;
  }
  putRequest(scratch, 0, head, body);
  sender.beginWrite();
  const written = out.write(scratch, 0, length);
  return written === length
    ? NO_PARTS
    : [wholeBytesPart(Buffer.copyBytesFrom(scratch, written, length - written))];
}

const NO_PARTS: readonly Part[] = [];

/** Returns the end position. */
function putRequest(to: Buffer, from: number, head: OutgoingHead, body: readonly Part[]): number {
  let at = writeBytes(to, from, head.start);
  at += to.write(head.end, at, "latin1");
  for (const { bytes, start, end } of body) at = writeBytes(to, at, bytes, start, end);
  return at;
}

/** Like `writeRequest`, for parts that were not accepted before. */
export function writeParts(out: ByteWriter, parts: readonly Part[]): readonly Part[] {
  for (const [i, { bytes, start, end }] of parts.entries()) {
    const written = out.write(bytes, start, end);
    if (written < end - start) return [{ bytes, start: start + written, end }, ...parts.slice(i + 1)];
  }
  return NO_PARTS;
}

/** The memory of the part was freed while it waited: the response was complete without it. */
export function isFreed({ bytes, end }: Part): boolean {
  return bytes.length < end;
}

/** Joins short parts; long parts stay separate. */
function joinShortParts(head: OutgoingHead, body: readonly Part[]): Part[] {
  const parts: Part[] = [];
  let short: Part[] = [wholeBytesPart(encodeHead(head))];
  let shortBytes = partsLength(short);
  for (const part of body) {
    const length = part.end - part.start;
    if (shortBytes + length > TOGETHER_BYTES_MAX) {
      if (short.length > 0) parts.push(wholeBytesPart(joinParts(short)));
      short = [];
      shortBytes = 0;
    }
    if (length > TOGETHER_BYTES_MAX) parts.push(part);
    else {
      short.push(part);
      shortBytes += length;
    }
  }
  if (short.length > 0) parts.push(wholeBytesPart(joinParts(short)));
  return parts;
}
