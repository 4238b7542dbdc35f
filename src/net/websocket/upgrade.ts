/** The answer that makes a WebSocket of a connection. */

import { computeAcceptKey } from "./accept-key.ts";

/** What was agreed on. */
export interface Handshake {
  /** The headers of the request. */
  headers: Pick<Headers, "get">;
  requestId: string;
  /** The one agreed on of those that were offered; empty for none. */
  protocol: string;
}

/** Sixteen bytes in Base64. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/** Null when it is no proper request for one. */
export function upgradeHead({ headers, requestId, protocol }: Handshake): Buffer | null {
  const key = headers.get("sec-websocket-key") ?? "";
  if (!KEY.test(key) || headers.get("sec-websocket-version") !== "13") return null;
  if (!names(headers.get("upgrade"), "websocket") || !names(headers.get("connection"), "upgrade"))
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

/** Whether a list, as headers have them, names something. */
function names(list: string | null, wanted: string): boolean {
  return (list ?? "").split(",").some((option) => option.trim().toLowerCase() === wanted);
}
