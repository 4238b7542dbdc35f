/** Finds the base URL under which a client reaches this gateway, for error messages. */

import type { HeaderReader } from "../net/wire/http-fields.ts";

/** A host name or address with an optional port. A client's Host header is repeated only in this form. */
const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0|\[::\])$/;

/**
 * Returns `public_url`, unless it is a loopback address. A loopback address is the default, and clients on other
 * machines used the name in their Host header.
 */
export function findBaseUrl(headers: HeaderReader, publicUrl: string): string {
  const { origin, hostname } = new URL(publicUrl);
  const host = headers.get("host");
  if (!LOOPBACK.test(hostname) || host === null || !HOST.test(host)) return trimSlash(publicUrl, origin);
  return `http://${host.toLowerCase()}`;
}

/** A public URL may have a path, which a proxy strips. */
function trimSlash(publicUrl: string, origin: string): string {
  return publicUrl === "" ? origin : publicUrl.replace(/\/+$/, "");
}
