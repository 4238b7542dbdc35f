/**
 * The elements of a JSON list as bytes, written once: a list is many times as long as its request. Clients that request
 * it at once share its memory, and a page costs no more than its search.
 */

import { type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";
import { type HttpResponse, StreamedResponse, WholeResponse } from "../../net/wire/http-message.ts";
import { PacedBody } from "../stream/paced-body.ts";
import { JSON_LINES } from "./error-response.ts";

/** A longer page is sent as its client reads it. */
const COPIED_BYTES_MAX = 16 * 1024;

const nothing = (): void => {};

export class WrittenList {
  readonly #bytes: Uint8Array;
  /** Where each element begins, and one position more: a comma ends each of them. */
  readonly #starts: number[] = [0];

  constructor(elements: readonly object[]) {
    const texts = elements.map((element) => `${JSON.stringify(element)},`);
    let at = 0;
    for (const text of texts) {
      at += Buffer.byteLength(text);
      this.#starts.push(at);
    }
    this.#bytes = Buffer.from(texts.join(""));
  }

  /** The response of a page: these elements, between the text before and after them. */
  respond(requestId: string, { before, from, to, after }: WrittenPage): HttpResponse {
    const body = [
      wholeBytesPart(Buffer.from(before)),
      ...this.#slice(from, to),
      wholeBytesPart(Buffer.from(after)),
    ];
    const headers = `${JSON_LINES}x-request-id: ${requestId}\r\n`;
    return partsLength(body) <= COPIED_BYTES_MAX
      ? new WholeResponse(200, headers, body)
      : new StreamedResponse(headers, new PacedBody(body, nothing));
  }

  #slice(from: number, to: number): Part[] {
    if (from >= to) return [];
    const start = this.#starts[from] ?? 0;
    const end = this.#starts[to] ?? this.#bytes.length;
    return [{ bytes: this.#bytes, start, end: end - 1 }];
  }
}

interface WrittenPage {
  readonly before: string;
  /** The elements from the first up to the second number. */
  readonly from: number;
  readonly to: number;
  readonly after: string;
}
