/** Collects the response to the handshake of a WebSocket until its head is complete, however small its pieces are. */

import { parseResponseHead, type ResponseHead } from "../../net/http-client/response-head.ts";
import { ReadAhead } from "../../net/wire/read-ahead.ts";

export class HandshakeHead {
  readonly #bytesMax: number;
  #received: ReadAhead | null = null;
  /** Where the head begins that is not complete: after the interim responses, which are parsed once. */
  #from = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Returns the final head, why the response is not valid, or null if the head is incomplete. */
  add(bytes: Buffer): ResponseHead | string | null {
    const known = this.#received?.length ?? 0;
    const received = this.#append(bytes);
    // What arrives in small pieces is not parsed for each piece.
    const mayBeWhole = known === 0 || received.mayEndHead(known);
    const head = mayBeWhole ? this.#parse(received.bytes) : null;
    // Interim responses are counted, so that they cannot continue forever.
    const headBytes = head === null || typeof head === "string" ? received.length : head.bodyAt;
    if (typeof head === "string" || headBytes <= this.#bytesMax) return head;
    return `the response head exceeds ${this.#bytesMax} bytes`;
  }

  /** The bytes after the final head. */
  takeRest({ bodyAt }: ResponseHead): Buffer {
    const received = this.#received?.take() ?? Buffer.alloc(0);
    this.#received = null;
    return received.subarray(bodyAt);
  }

  #append(bytes: Buffer): ReadAhead {
    if (this.#received === null) this.#received = new ReadAhead(bytes);
    else this.#received.append(bytes);
    return this.#received;
  }

  #parse(received: Buffer): ResponseHead | string | null {
    for (;;) {
      const head = parseResponseHead(received, this.#from);
      if (head === null || typeof head === "string") return head;
      if (head.status >= 200 || head.status === 101 || head.bodyAt > this.#bytesMax) return head;
      this.#from = head.bodyAt;
    }
  }
}
