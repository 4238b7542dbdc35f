/** A document that does not change: its bytes are built once, and its ETag serves revalidation. */

import { NO_BYTES } from "../../base/bytes.ts";
import type { HeaderReader } from "./http-fields.ts";
import { SharedResponse } from "./http-message.ts";

export class StaticDocument {
  readonly bytes: Uint8Array;
  readonly etag: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(bytes: Uint8Array, headers: Readonly<Record<string, string>>) {
    this.bytes = bytes;
    this.etag = computeEtag(bytes);
    this.#headers = { ...headers, etag: this.etag };
  }

  /** Returns 304 without a body when the client's copy is current. */
  respond(requestHeaders: HeaderReader): SharedResponse {
    const isUnchanged = matchesEtag(requestHeaders.get("if-none-match"), this.etag);
    return new SharedResponse(isUnchanged ? 304 : 200, this.#headers, isUnchanged ? NO_BYTES : this.bytes);
  }
}

function computeEtag(bytes: Uint8Array): string {
  return `"${Bun.hash.xxHash64(bytes).toString(16)}"`;
}

/** Clients may cache the document and must revalidate it. */
export function jsonDocument(value: unknown): StaticDocument {
  const headers = { "content-type": "application/json", "cache-control": "no-cache" };
  return new StaticDocument(Buffer.from(JSON.stringify(value)), headers);
}

/** Weak comparison, as RFC 9110 requires for `If-None-Match`. */
export function matchesEtag(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  if (ifNoneMatch.trim() === "*") return true;
  return ifNoneMatch.split(",").some((listed) => {
    const tag = listed.trim();
    return tag === etag || (tag.startsWith("W/") && tag.slice(2) === etag);
  });
}
