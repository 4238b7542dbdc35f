/**
 * Reads the heads of one connection. What a client asks next differs as a rule from what it asked last by the length of
 * its body alone: such a head is compared, not parsed again, and shares what was learnt from the one before.
 */

import { startsWithAt } from "../wire/bytes.ts";
import { digitsEnd, parseNumber } from "../wire/http-fields.ts";
import { parseRequestHead, type RequestFault, RequestHead, type RequestOptions } from "./request-head.ts";

/** A head up to the number of its length, and from there on. */
interface Remembered {
  readonly asked: RequestOptions;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/** Longer ones are not remembered: every idle connection would keep one. */
const REMEMBERED_BYTES_MAX = 2 * 1024;
/** A client whose heads are never alike is not worth remembering. */
const UNLIKE_MAX = 3;

export class HeadReader {
  private last: Remembered | null = null;
  /** Heads in a row that were not like the one before. */
  private unlike = 0;

  /** Null when the head goes on after these bytes. */
  read(bytes: Buffer, from: number, bytesMax: number): RequestHead | RequestFault | null {
    const again = this.last === null ? null : readAlike(this.last, bytes, from);
    if (again !== null) {
      this.unlike = 0;
      return again;
    }
    const head = parseRequestHead(bytes, from, bytesMax);
    if (head instanceof RequestHead && this.unlike < UNLIKE_MAX) this.remember(head, bytes, from, bytesMax);
    return head;
  }

  forget(): void {
    this.last = null;
    this.unlike = UNLIKE_MAX;
  }

  private remember({ asked, lengthAt, bodyAt }: RequestHead, bytes: Buffer, from: number, bytesMax: number) {
    this.unlike++;
    this.last = null;
    // Half the limit, so that such a head is within it however many digits its length has.
    if (lengthAt < 0 || bodyAt - from > Math.min(REMEMBERED_BYTES_MAX, bytesMax / 2)) return;
    const before = Buffer.copyBytesFrom(bytes, from, lengthAt - from);
    const afterAt = digitsEnd(bytes, lengthAt);
    this.last = { asked, before, after: Buffer.copyBytesFrom(bytes, afterAt, bodyAt - afterAt) };
  }
}

function readAlike({ asked, before, after }: Remembered, bytes: Buffer, from: number): RequestHead | null {
  if (!startsWithAt(bytes, from, before)) return null;
  const lengthAt = from + before.length;
  const afterAt = digitsEnd(bytes, lengthAt);
  const length = parseNumber(bytes, lengthAt, afterAt);
  if (length < 0 || !startsWithAt(bytes, afterAt, after)) return null;
  return new RequestHead(asked, length, lengthAt, afterAt + after.length);
}
