/** Checks the origin of a request: whether a page of the gateway sent it, and whether its connection is secure. */

import { ApiError } from "../../errors.ts";
import { isOwnOrigin, requestScheme } from "../../net/http-server/own-origin.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

/** Rejects requests from other sites by their origin, which no page can forge. Programs send none. */
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
