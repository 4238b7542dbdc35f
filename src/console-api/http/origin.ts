/** Where a request comes from: whether our own pages sent it, whether its way is secret, and whose it is. */

import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { isOwnOrigin, schemeOf } from "../../own-origin.ts";

/** Browsers say where a request comes from, and no page can make them lie. A program says nothing. */
export function refuseForeign(headers: HeaderReader, publicUrl: string, hasCookie: boolean): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isOwn =
    (site === null || site === "same-origin") && (origin === null || isOwnOrigin(origin, headers, publicUrl));
  // A cookie is a browser's, and browsers name the origin of every change.
  const isNamed = site !== null || origin !== null;
  if (isOwn && (isNamed || !hasCookie)) return;
  throw new ApiError(
    "foreign_origin",
    hasCookie && !isNamed
      ? "A change with the console's cookie must name its Origin. Programs use a personal access token instead."
      : "This was sent by a page of another site. Do it in the console itself.",
  );
}

/** A browser keeps the session's cookie only when it came over https, or on the machine itself. */
export function refuseInsecure(headers: HeaderReader, publicUrl: string): void {
  const origin = headers.get("origin");
  const url =
    origin !== null && URL.canParse(origin)
      ? new URL(origin)
      : new URL(`${schemeOf(headers, publicUrl)}://${headers.get("host") ?? "unknown"}`);
  if (url.protocol === "https:" || isLoopback(url.hostname)) return;
  throw new ApiError(
    "forbidden",
    `Signing in needs an encrypted connection, and ${url.origin} is not: anybody on the way could read the password. Put a proxy with https in front and set PUBLIC_URL to its address, or use http://localhost on the machine itself, for example through ssh -L.`,
  );
}

export function isLoopback(hostname: string): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(hostname);
}

const PRIVATE = /^(?:::ffff:)?(?:127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.)|^(?:::1$|f[cd])/i;

/** The gateway speaks no TLS: where it is reached by https, a private address that connects to it is its proxy. */
export function isProxy(peer: string, publicUrl: string): boolean {
  return /^(?:::ffff:)?127\.|^::1$/.test(peer) || (publicUrl.startsWith("https:") && PRIVATE.test(peer));
}

/**
 * Behind our own proxy every request would come from one address. The last one it names is the one it saw itself;
 * whatever stands before that, anybody can write.
 */
export function clientAddressOf(headers: HeaderReader, peer: string, publicUrl: string): string {
  if (!publicUrl.startsWith("https:") || !PRIVATE.test(peer)) return peer;
  const seen = headers.get("x-forwarded-for")?.split(",").at(-1)?.trim() ?? "";
  return /^[0-9A-Fa-f.:]{2,45}$/.test(seen) ? seen : peer;
}
