/** A request whose body is in memory goes out in as few writes as it can, and with as little of it copied. */

import { writeBytes } from "../wire/bytes.ts";
import { joinParts, type Part, partsLength, wholeBytesPart } from "../wire/parts.ts";
import { type BatchedWriter, writeBatcher } from "../wire/write-batcher.ts";
import { encodeHead, type OutgoingHead } from "./request-head.ts";

interface Outlet {
  /** How many bytes were taken. */
  write(bytes: Uint8Array, from: number, to: number): number;
}

/** Head and body are copied together up to here; a longer part is written from where it is. */
const TOGETHER_BYTES_MAX = 65_536;
/** Writing copies into the kernel, or does nothing: one buffer serves every request. */
const scratch = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX);
/** What goes before a long part is put in front of it for the time of a write, up to here. */
const IN_FRONT_BYTES_MAX = 4_096;
const covered = Buffer.allocUnsafeSlow(IN_FRONT_BYTES_MAX);

/** Returns what was not taken; null: it was posted, and is handed to whoever sends it at the end of the turn. */
export function writeRequest(
  out: Outlet,
  sender: BatchedWriter,
  head: OutgoingHead,
  body: readonly Part[],
): readonly Part[] | null {
  const { start, end } = head;
  const length = start.length + end.length + partsLength(body);
  if (length > TOGETHER_BYTES_MAX) return writeParts(out, gathered(head, body));
  const at = writeBatcher.roomFor(length);
  if (at >= 0) {
    writeBatcher.post(sender, putRequest(writeBatcher.bytes, at, head, body));
    return null;
  }
  putRequest(scratch, 0, head, body);
  const taken = out.write(scratch, 0, length);
  return taken === length ? NOTHING : [wholeBytesPart(Buffer.copyBytesFrom(scratch, taken, length - taken))];
}

const NOTHING: readonly Part[] = [];

/** Returns where it ends. */
function putRequest(to: Buffer, from: number, head: OutgoingHead, body: readonly Part[]): number {
  let at = writeBytes(to, from, head.start);
  at += to.write(head.end, at, "latin1");
  for (const { bytes, start, end } of body) at = writeBytes(to, at, bytes, start, end);
  return at;
}

/** The same for parts that were not taken before. */
export function writeParts(out: Outlet, parts: readonly Part[]): readonly Part[] {
  let left = parts;
  for (let first = left[0]; first !== undefined; first = left[0]) {
    const [, second] = left;
    const isInFront = second !== undefined && hasRoomFor(first, second);
    const tried = isInFront ? [first, second] : [first];
    const taken = isInFront
      ? writeInFront(out, first, second)
      : out.write(first.bytes, first.start, first.end);
    left = without(left, taken);
    if (taken < partsLength(tried)) break;
  }
  return left;
}

/** The part's memory was freed while it waited, because the answer was complete without it. It cannot be sent. */
export function isFreed({ bytes, end }: Part): boolean {
  return bytes.length < end;
}

/** Short parts copied together, long ones where they are. */
function gathered(head: OutgoingHead, body: readonly Part[]): Part[] {
  const parts: Part[] = [];
  let short: Part[] = [wholeBytesPart(encodeHead(head))];
  for (const part of body) {
    if (partsLength(short) + part.end - part.start > TOGETHER_BYTES_MAX) {
      if (short.length > 0) parts.push(wholeBytesPart(joinParts(short)));
      short = [];
    }
    if (part.end - part.start > TOGETHER_BYTES_MAX) parts.push(part);
    else short.push(part);
  }
  if (short.length > 0) parts.push(wholeBytesPart(joinParts(short)));
  return parts;
}

/** A body that came by the network has its own head in front of it, which nobody needs any more. */
function hasRoomFor(first: Part, { bytes, start }: Part): boolean {
  const length = first.end - first.start;
  return length <= IN_FRONT_BYTES_MAX && length <= bytes.byteOffset + start;
}

/**
 * Both in one write, where two would cost another call into the kernel and a packet of its own. Whatever stands in
 * front is there again afterwards: nobody else runs meanwhile, so nobody sees it gone.
 */
function writeInFront(out: Outlet, first: Part, { bytes, start, end }: Part): number {
  const length = first.end - first.start;
  const all = new Uint8Array(bytes.buffer, bytes.byteOffset + start - length, length + end - start);
  writeBytes(covered, 0, all, 0, length);
  writeBytes(all, 0, first.bytes, first.start, first.end);
  try {
    return out.write(all, 0, all.length);
  } finally {
    writeBytes(all, 0, covered, 0, length);
  }
}

function without(parts: readonly Part[], bytes: number): readonly Part[] {
  let left = bytes;
  for (const [i, { bytes, start, end }] of parts.entries()) {
    if (left < end - start) return [{ bytes, start: start + left, end }, ...parts.slice(i + 1)];
    left -= end - start;
  }
  return NOTHING;
}
