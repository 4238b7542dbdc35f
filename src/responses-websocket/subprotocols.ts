/**
 * Reads the API key from WebSocket subprotocols. A page cannot set headers of an upgrade request in a browser, but it
 * can offer subprotocols. The gateway's own pages therefore send the key as one: `responses, gateway-key.<the key in
 * Base64url>`.
 */

import type { HeaderReader } from "../net/wire/http-fields.ts";

const SUPPORTED = "responses";
const KEY = "gateway-key.";

/** The headers, with the page's key as `authorization`. Check the origin of the page first. */
export function readSubprotocolKey(headers: HeaderReader): HeaderReader {
  if (headers.has("authorization") || !headers.has("origin")) return headers;
  const keyProtocol = listOffered(headers).find((protocol) => protocol.startsWith(KEY));
  if (keyProtocol === undefined) return headers;
  const secret = Buffer.from(keyProtocol.slice(KEY.length), "base64url").toString("latin1");
  // A value that cannot be a key is kept out of the header and rejected like any invalid key.
  const authorization = `Bearer ${/^[\x21-\x7e]+$/.test(secret) ? secret : "unreadable"}`;
  return {
    get: (name) => (name === "authorization" ? authorization : headers.get(name)),
    has: (name) => name === "authorization" || headers.has(name),
  };
}

/** The supported subprotocol if offered, else the empty string: accepting another would promise it. */
export function chooseSubprotocol(headers: HeaderReader): string {
  return listOffered(headers).includes(SUPPORTED) ? SUPPORTED : "";
}

function listOffered(headers: HeaderReader): string[] {
  const list = headers.get("sec-websocket-protocol") ?? "";
  return list === "" ? [] : list.split(",").map((protocol) => protocol.trim());
}
