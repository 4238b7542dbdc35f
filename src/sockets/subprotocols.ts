/**
 * A browser sends no header of a page's choice with an upgrade. What it does send are the subprotocols a page offers, so
 * our own pages put the key among them: `responses, gateway-key.<the key in Base64url>`.
 */

const KEY = "gateway-key.";

/** With the key of a page where the other headers expect it. Callers have made sure that the page is a trusted one. */
export function withKeyOfPage(headers: Headers): Headers {
  if (headers.has("authorization") || !headers.has("origin")) return headers;
  const offered = offeredIn(headers).find((protocol) => protocol.startsWith(KEY));
  if (offered === undefined) return headers;
  const presented = new Headers(headers);
  const secret = Buffer.from(offered.slice(KEY.length), "base64url").toString("latin1");
  // Whatever is no key stays out of a header; it is refused like any other wrong one.
  presented.set("authorization", `Bearer ${/^[\x21-\x7e]+$/.test(secret) ? secret : "unreadable"}`);
  return presented;
}

/** The first that is no key; empty for none. Left to itself the runtime answers with the first, key or not. */
export function answeredProtocol(headers: Headers): string {
  return offeredIn(headers).find((protocol) => !protocol.startsWith(KEY)) ?? "";
}

function offeredIn(headers: Headers): string[] {
  const list = headers.get("sec-websocket-protocol") ?? "";
  return list === "" ? [] : list.split(",").map((protocol) => protocol.trim());
}
