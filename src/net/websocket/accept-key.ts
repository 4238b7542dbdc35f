/** What every WebSocket server puts behind the key that it was sent. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** The `Sec-WebSocket-Accept` that answers a `Sec-WebSocket-Key`. */
export function computeAcceptKey(key: string): string {
  return new Bun.CryptoHasher("sha1").update(key + GUID).digest("base64");
}
