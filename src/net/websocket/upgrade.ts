/** The server side of the WebSocket handshake. */

import { computeAcceptKey } from "./accept-key.ts";

interface Handshake {
  headers: Pick<Headers, "get">;
  requestId: string;
  /** The selected subprotocol; empty for none. */
  protocol: string;
}

/** Sixteen bytes in Base64. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Returns the 101 response head, or null when the request is not a valid upgrade request. */
export function upgradeHead({ headers, requestId, protocol }: Handshake): Buffer | null {
  const key = headers.get("sec-websocket-key") ?? "";
  if (!KEY.test(key) || headers.get("sec-websocket-version") !== "13") return null;
  if (
    !listContains(headers.get("upgrade"), "websocket") ||
    !listContains(headers.get("connection"), "upgrade")
  )
    return null;
  if (protocol !== "" && !TOKEN.test(protocol)) return null;
  return Buffer.from(
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n" +
      `sec-websocket-accept: ${computeAcceptKey(key)}\r\n` +
      (protocol === "" ? "" : `sec-websocket-protocol: ${protocol}\r\n`) +
      `x-request-id: ${requestId}\r\n\r\n`,
    "latin1",
  );
}

/** Whether a comma-separated header value contains `wanted`. */
function listContains(list: string | null, name: string): boolean {
  return (list ?? "").split(",").some((option) => option.trim().toLowerCase() === name);
}
