/** The address of the page: an operation and a body, never the key. */

import { toBase64Url } from "./base64-url.ts";

export interface Place {
  /** An operation's id. */
  operation: string;
  /** As typed; null: the first example. */
  body: string | null;
}

/** Longer links are cut where they are pasted, and pictures in Base64 are longer. */
const BODY_CHARS_MAX = 16_000;

/** In the fragment, which no server receives. A body that is too long is left out. */
export function buildAddress({ operation, body }: Place): string {
  const isLinked = body !== null && body.length <= BODY_CHARS_MAX;
  return isLinked ? `#${operation}/${toBase64Url(body)}` : `#${operation}`;
}

export function parseAddress(fragment: string): Place | null {
  const [, operation, encoded] = /^#(\w+)(?:\/([\w-]*))?$/.exec(fragment) ?? [];
  if (operation === undefined) return null;
  return { operation, body: encoded === undefined ? null : fromBase64Url(encoded) };
}

/** Null if the text is not valid Base64, for example because a link was cut. */
function fromBase64Url(encoded: string): string | null {
  try {
    const binary = atob(encoded.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(
      Uint8Array.from(binary, (char) => char.charCodeAt(0)),
    );
  } catch {
    return null;
  }
}
