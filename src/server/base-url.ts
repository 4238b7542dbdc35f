/** The address under which a client reaches this gateway, for messages that tell it which one to use. */

import type { HeaderReader } from "../net/wire/http-fields.ts";

/** A name or an address, and a port. What a client sends is repeated to it only in this form. */
const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|0\.0\.0\.0|\[::\])$/;

/**
 * `public_url`, where it names the gateway to others. One that only this machine can use is the default, and clients of
 * other machines came by the name in their own `Host`.
 */
export function findBaseUrl(headers: HeaderReader, publicUrl: string): string {
  const { origin, hostname } = new URL(publicUrl);
  const host = headers.get("host");
  if (!LOOPBACK.test(hostname) || host === null || !HOST.test(host)) return trimSlash(publicUrl, origin);
  return `http://${host.toLowerCase()}`;
}

/** A public address may have a path, which a proxy takes off. */
function trimSlash(publicUrl: string, origin: string): string {
  return publicUrl === "" ? origin : publicUrl.replace(/\/+$/, "");
}
