/** Recognizes a proxy in front of the server, and resolves the address of the client behind it. */

import { isIP } from "node:net";
import type { HeaderReader } from "../wire/http-fields.ts";

const PRIVATE = /^(?:::ffff:)?(?:127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)|^(?:::1$|f[cd])/i;

/** The gateway does not terminate TLS: if its public URL is https, a private peer address is its proxy. */
export function isProxy(peer: string, publicUrl: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(peer) || (publicUrl.startsWith("https:") && PRIVATE.test(peer));
}

/**
 * Behind a proxy, the peer address is the same for every request. Uses the last forwarded address, which the proxy
 * itself observed. Earlier ones can be forged. Null if the address is unknown: the proxy is not trusted, or it names no
 * address. It is never the proxy's own, because a network of proxies may be allowed where its clients are not.
 */
export function resolveClientAddress(headers: HeaderReader, peer: string, publicUrl: string): string | null {
  const forwarded = PRIVATE.test(peer) ? headers.get("x-forwarded-for") : null;
  if (forwarded === null) return peer;
  return publicUrl.startsWith("https:") ? parseForwarded(forwarded) : null;
}

/** The address by which attempts are counted: the peer's if that of the client is unknown. */
export function resolveCountedAddress(headers: HeaderReader, peer: string, publicUrl: string): string {
  return resolveClientAddress(headers, peer, publicUrl) ?? peer;
}

/** Some proxies add the port of the client, as in `203.0.113.9:4711` and `[2001:db8::7]:4711`. */
function parseForwarded(list: string): string | null {
  const last = list.slice(list.lastIndexOf(",") + 1).trim();
  const address = /^\[(.*)\](?::\d+)?$|^([^:]*):\d+$/.exec(last);
  const host = address?.[1] ?? address?.[2] ?? last;
  return isIP(host) === 0 || host.includes("%") ? null : host;
}
