/**
 * A browser sends no header of a page's choice with an upgrade. What it does send are the subprotocols a page offers, so
 * our own pages put the key among them: `responses, gateway-key.<the key in Base64url>`.
 */

import type { HeaderReader } from "../net/wire/http-fields.ts";

const SPOKEN = "responses";
const KEY = "gateway-key.";

/** With the key of a page where the other headers expect it. Callers have made sure that the page is a trusted one. */
export function readSubprotocolKey(headers: HeaderReader): HeaderReader {
  if (headers.has("authorization") || !headers.has("origin")) return headers;
  const offered = offeredIn(headers).find((protocol) => protocol.startsWith(KEY));
  if (offered === undefined) return headers;
  const secret = Buffer.from(offered.slice(KEY.length), "base64url").toString("latin1");
  // Whatever is no key stays out of a header; it is refused like any other wrong one.
  const authorization = `Bearer ${/^[\x21-\x7e]+$/.test(secret) ? secret : "unreadable"}`;
  return {
    get: (name) => (name === "authorization" ? authorization : headers.get(name)),
    has: (name) => name === "authorization" || headers.has(name),
  };
}

/** Ours if it is offered, else none, which is the empty text: agreeing to another would be a promise to speak it. */
export function chooseSubprotocol(headers: HeaderReader): string {
  return offeredIn(headers).includes(SPOKEN) ? SPOKEN : "";
}

function offeredIn(headers: HeaderReader): string[] {
  const list = headers.get("sec-websocket-protocol") ?? "";
  return list === "" ? [] : list.split(",").map((protocol) => protocol.trim());
}
