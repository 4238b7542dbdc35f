/** Collects the response to the handshake of a WebSocket until its head is complete, however small its pieces are. */

import { writeBytes } from "../../base/bytes.ts";
import { parseResponseHead, type ResponseHead } from "../../net/http-client/response-head.ts";
import { containsHeadEnd } from "../../net/wire/http-fields.ts";

export class HandshakeHead {
  readonly #bytesMax: number;
  /** In an array that grows by doubling. */
  #bytes: Buffer = Buffer.alloc(0);
  #length = 0;
  /** Where the head begins that is not complete: after the interim responses, which are parsed once. */
  #from = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns the final head, why the response is not valid, or null if the head is incomplete. */
  add(bytes: Buffer): ResponseHead | string | null {
    const known = this.#length;
    this.#append(bytes);
    // What arrives in small pieces is not parsed for each piece.
    const mayBeWhole = known === 0 || containsHeadEnd(this.#bytes, known, this.#length);
    const head = mayBeWhole ? this.#parse() : null;
    // Interim responses are counted, so that they cannot continue forever.
    const headBytes = head === null || typeof head === "string" ? this.#length : head.bodyAt;
    if (typeof head === "string" || headBytes <= this.#bytesMax) return head;
    return `the response head exceeds ${this.#bytesMax} bytes`;
  }

  /** The bytes after the final head. */
  takeRest({ bodyAt }: ResponseHead): Buffer {
    const rest = this.#bytes.subarray(bodyAt, this.#length);
    this.#bytes = Buffer.alloc(0);
    return rest;
  }

  #parse(): ResponseHead | string | null {
    const received = this.#bytes.subarray(0, this.#length);
    for (;;) {
      const head = parseResponseHead(received, this.#from);
      if (head === null || typeof head === "string") return head;
      if (head.status >= 200 || head.status === 101 || head.bodyAt > this.#bytesMax) return head;
      this.#from = head.bodyAt;
    }
  }

  #append(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (this.#length === 0) this.#bytes = bytes;
    else {
      if (length > this.#bytes.length) {
        const grown = Buffer.allocUnsafe(2 * length);
        writeBytes(grown, 0, this.#bytes, 0, this.#length);
        this.#bytes = grown;
      }
      writeBytes(this.#bytes, this.#length, bytes);
    }
    this.#length = length;
  }
}
