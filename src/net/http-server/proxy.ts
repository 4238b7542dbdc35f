/** Recognizes a proxy in front of the server, and resolves the address of the client behind it. */

import type { HeaderReader } from "../wire/http-fields.ts";

const PRIVATE = /^(?:::ffff:)?(?:127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)|^(?:::1$|f[cd])/i;

/** The gateway does not terminate TLS: if its public URL is https, a private peer address is its proxy. */
export function isProxy(peer: string, publicUrl: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(peer) || (publicUrl.startsWith("https:") && PRIVATE.test(peer));
}

/** An unknown proxy forwards the request, so the address of the client is unknown. */
export function hidesClientAddress(headers: HeaderReader, peer: string, publicUrl: string): boolean {
  return !publicUrl.startsWith("https:") && PRIVATE.test(peer) && headers.has("x-forwarded-for");
}

/**
 * Behind a proxy, the peer address is the same for every request. Uses the last forwarded address, which the
 * proxy itself observed. Earlier ones can be forged.
 */
export function resolveClientAddress(headers: HeaderReader, peer: string, publicUrl: string): string {
  if (!publicUrl.startsWith("https:") || !PRIVATE.test(peer)) return peer;
  const forwarded = headers.get("x-forwarded-for")?.split(",").at(-1)?.trim() ?? "";
  return /^[0-9A-Fa-f.:]{2,45}$/.test(forwarded) ? forwarded : peer;
}
