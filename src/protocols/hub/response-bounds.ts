/** Counts what a reader keeps of a response, and ends one that exceeds a bound (`count-limits.ts`). */

import { responseBounds } from "../../count-limits.ts";
import { isObject } from "../../json/parse.ts";
import { outOfBoundsError, type UpstreamError } from "../shared/upstream-error.ts";
import type { Citation } from "./hub-request.ts";
import type { Json } from "./json-values.ts";

/** Readers throw it. The response is ended, or another account is tried. */
export class ResponseBoundError extends Error {
  readonly upstreamError: UpstreamError;

  constructor(max: number, what: string) {
    const upstreamError = outOfBoundsError({ max, what });
    super(upstreamError.message);
    this.upstreamError = upstreamError;
  }
}

export class ResponseBounds {
  #calls = 0;
  #items = 0;
  #citations = 0;
  #citationChars = 0;
  #searches = 0;
  #addresses = 0;
  #chars = 0;

  addCall(): void {
    check(++this.#calls, responseBounds.callsMax, "calls");
  }

  addItem(): void {
    check(++this.#items, responseBounds.itemsMax, "items");
  }

  checkOpenItems(count: number): void {
    check(count, responseBounds.openItemsMax, "items in progress");
  }

  addCitation({ url, title }: Pick<Citation, "url" | "title">): void {
    check(++this.#citations, responseBounds.citationsMax, "citations");
    this.#citationChars += url.length + title.length;
    check(this.#citationChars, responseBounds.citationCharsMax, "characters of citations");
  }

  addSearch(query: string): void {
    check(++this.#searches, responseBounds.searchesMax, "searches");
    this.addText(query.length);
  }

  /** The pages that searches found. */
  addAddresses(urls: readonly string[]): void {
    this.#addresses += urls.length;
    check(this.#addresses, responseBounds.searchAddressesMax, "addresses of searches");
    for (const url of urls) this.addText(url.length);
  }

  /** Text that is kept. */
  addText(chars: number): void {
    this.#chars += chars;
    check(this.#chars, responseBounds.textCharsMax, "characters");
  }

  /** The objects of a list. A value of another type reads as an empty list. */
  readList(value: unknown): readonly Json[] {
    if (!Array.isArray(value)) return [];
    check(value.length, responseBounds.listMax, "elements in one list");
    return value.filter(isObject);
  }

  /** The first choice or candidate: dialects other than the client's have one. */
  readFirstChoice(value: unknown): Json | undefined {
    if (!Array.isArray(value)) return undefined;
    check(value.length, responseBounds.choicesMax, "choices");
    return value.find(isObject);
  }
}

function check(count: number, max: number, what: string): void {
  if (count > max) throw new ResponseBoundError(max, what);
}
