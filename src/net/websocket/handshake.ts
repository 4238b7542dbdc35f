/** The client side of the WebSocket handshake: the request, and the check of the response. */

import type { ResponseHeaders } from "../http-client/contract.ts";
import { computeAcceptKey } from "./accept-key.ts";

export function newHandshakeKey(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64");
}

/** Latin-1 text including the empty line at its end. Path and header lines must be validated, as for any request. */
export function buildHandshake(path: string, hostLine: string, headers: string, key: string): string {
  return (
    `GET ${path} HTTP/1.1\r\n${hostLine}${headers}` +
    `connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`
  );
}

/**
 * Returns what is wrong with a response of status 101, or null. The client offers no extension or subprotocol, so the
 * server may not select one.
 */
export function findHandshakeFault(headers: ResponseHeaders, key: string): string | null {
  if ((headers.get("upgrade") ?? "").toLowerCase() !== "websocket") return "an upgrade to another protocol";
  const options = (headers.get("connection") ?? "").toLowerCase().split(",");
  if (!options.some((option) => option.trim() === "upgrade")) return "an upgrade that was not confirmed";
  if (headers.get("sec-websocket-accept") !== computeAcceptKey(key)) return "a handshake for another key";
  if (headers.has("sec-websocket-extensions")) return "an extension that was not requested";
  if (headers.has("sec-websocket-protocol")) return "a subprotocol that was not requested";
  return null;
}
