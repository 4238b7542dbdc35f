/** What is looked at, as the address of the page: an operation and a body, never the key. */

import { toBase64Url } from "./base64-url.ts";

export interface Place {
  /** An operation's id. */
  operation: string;
  /** As typed; null: the first example. */
  body: string | null;
}

/** Longer ones are cut by what links are pasted into: pictures in Base64 are. */
const BODY_CHARS_MAX = 16_000;

/** In the fragment, which no server sees. A body that is too long stays out of it. */
export function addressOf({ operation, body }: Place): string {
  const isLinked = body !== null && body.length <= BODY_CHARS_MAX;
  return isLinked ? `#${operation}/${toBase64Url(body)}` : `#${operation}`;
}

export function placeOf(fragment: string): Place | null {
  const [, operation, encoded] = /^#(\w+)(?:\/([\w-]*))?$/.exec(fragment) ?? [];
  if (operation === undefined) return null;
  return { operation, body: encoded === undefined ? null : fromBase64Url(encoded) };
}

/** Null for what nobody encoded: a link that was cut, for one. */
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
