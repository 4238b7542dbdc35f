/** The handshake that makes a WebSocket of a connection: what is sent, and what must come back. */

import type { AnswerHeaders } from "../http-client/contract.ts";
import { computeAcceptKey } from "./accept-key.ts";

export function newHandshakeKey(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64");
}

/** Latin-1 text with the empty line that ends it. Path and header lines have been checked, as for any request. */
export function buildHandshake(path: string, hostLine: string, headers: string, key: string): string {
  return (
    `GET ${path} HTTP/1.1\r\n${hostLine}${headers}` +
    `connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`
  );
}

/** What is wrong with an answer of status 101, if anything. Nothing was offered, so nothing may be agreed on. */
export function findHandshakeFault(headers: AnswerHeaders, key: string): string | null {
  if ((headers.get("upgrade") ?? "").toLowerCase() !== "websocket") return "an upgrade to something else";
  const options = (headers.get("connection") ?? "").toLowerCase().split(",");
  if (!options.some((option) => option.trim() === "upgrade")) return "an upgrade that was not confirmed";
  if (headers.get("sec-websocket-accept") !== computeAcceptKey(key))
    return "a handshake that answers another key";
  if (headers.has("sec-websocket-extensions")) return "an extension nobody asked for";
  if (headers.has("sec-websocket-protocol")) return "a subprotocol nobody asked for";
  return null;
}
