/** Computes the `Sec-WebSocket-Accept` header (RFC 6455). */

/** The constant that RFC 6455 appends to the client's key. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Returns the `Sec-WebSocket-Accept` value for a `Sec-WebSocket-Key`. */
export function computeAcceptKey(key: string): string {
  return new Bun.CryptoHasher("sha1").update(key + GUID).digest("base64");
}
