/**
 * Checks the origin of a request: whether a page of the gateway sent it, whether its connection is secure, and
 * its client address.
 */

import { ApiError } from "../../errors.ts";
import { isOwnOrigin, requestScheme } from "../../net/http-server/own-origin.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

/**
 * Rejects requests from other sites. Browsers send the origin of a request, and no page can forge it. Programs
 * send none.
 */
export function rejectForeignOrigin(headers: HeaderReader, publicUrl: string, hasCookie: boolean): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isOwn =
    (site === null || site === "same-origin") && (origin === null || isOwnOrigin(origin, headers, publicUrl));
  // Only browsers send cookies, and browsers send the origin of every change.
  const isNamed = site !== null || origin !== null;
  if (isOwn && (isNamed || !hasCookie)) return;
  throw new ApiError(
    "foreign_origin",
    hasCookie && !isNamed
      ? "The Origin header is missing, which is required with the console's cookie. Programs use a personal access token instead."
      : "This request was sent by a page of another site. Use the console instead.",
  );
}

/** A browser stores the session cookie only over https or on the same machine. */
export function rejectInsecure(headers: HeaderReader, publicUrl: string): void {
  const origin = headers.get("origin");
  const url =
    origin !== null && URL.canParse(origin)
      ? new URL(origin)
      : new URL(`${requestScheme(headers, publicUrl)}://${headers.get("host") ?? "unknown"}`);
  if (url.protocol === "https:" || isLoopback(url.hostname)) return;
  throw new ApiError(
    "forbidden",
    `Signing in requires an encrypted connection, and ${url.origin} is not encrypted. Put an HTTPS proxy in front of the gateway and set PUBLIC_URL to its address, or use http://localhost on the machine itself, for example through ssh -L.`,
  );
}

export function isLoopback(hostname: string): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

const PRIVATE = /^(?:::ffff:)?(?:127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)|^(?:::1$|f[cd])/i;

/** The gateway does not terminate TLS: if its public URL is https, a private peer address is its proxy. */
export function isProxy(peer: string, publicUrl: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(peer) || (publicUrl.startsWith("https:") && PRIVATE.test(peer));
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
