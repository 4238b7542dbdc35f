/**
 * Reads the request heads of one connection. Consecutive heads of a client usually differ only in the length of the
 * body. Such a head is compared instead of parsed and shares the parsed values of the head before it.
 */

import { startsWithAt } from "../../base/bytes.ts";
import { digitsEnd, parseNumber } from "../wire/http-fields.ts";
import { parseRequestHead, type RequestFault, RequestHead, type RequestOptions } from "./request-head.ts";

/** A head, split before and after the digits of its Content-Length. */
interface RememberedHead {
  readonly options: RequestOptions;
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

/** Longer heads are not remembered, because every idle connection would hold one. */
const REMEMBERED_BYTES_MAX = 2 * 1024;
/** After this many different heads in a row, the reader stops remembering. */
const DIFFERENT_IN_ROW_MAX = 3;

export class HeadReader {
  #last: RememberedHead | null = null;
  #differentInRow = 0;

  /** Returns null when the head is incomplete. */
  read(bytes: Buffer, from: number, bytesMax: number): RequestHead | RequestFault | null {
    const repeated = this.#last === null ? null : readRepeated(this.#last, bytes, from);
    if (repeated !== null) {
      this.#differentInRow = 0;
      return repeated;
    }
    const head = parseRequestHead(bytes, from, bytesMax);
    if (head instanceof RequestHead && this.#differentInRow < DIFFERENT_IN_ROW_MAX)
      this.#remember(head, bytes, from, bytesMax);
    return head;
  }

  forget(): void {
    this.#last = null;
    this.#differentInRow = DIFFERENT_IN_ROW_MAX;
  }

  #remember({ options, lengthAt, bodyAt }: RequestHead, bytes: Buffer, from: number, bytesMax: number) {
    this.#differentInRow++;
    this.#last = null;
    // Half of the limit, so that a similar head is below the limit with any number of digits in its length.
    if (lengthAt < 0 || bodyAt - from > Math.min(REMEMBERED_BYTES_MAX, bytesMax / 2)) return;
    const before = Buffer.copyBytesFrom(bytes, from, lengthAt - from);
    const afterAt = digitsEnd(bytes, lengthAt);
    this.#last = { options, before, after: Buffer.copyBytesFrom(bytes, afterAt, bodyAt - afterAt) };
  }
}

function readRepeated(
  { options, before, after }: RememberedHead,
  bytes: Buffer,
  from: number,
): RequestHead | null {
  if (!startsWithAt(bytes, from, before)) return null;
  const lengthAt = from + before.length;
  const afterAt = digitsEnd(bytes, lengthAt);
  const length = parseNumber(bytes, lengthAt, afterAt);
  if (length < 0 || !startsWithAt(bytes, afterAt, after)) return null;
  return new RequestHead(options, length, lengthAt, afterAt + after.length);
}
