/**
 * Checks whether the Host header of a request names this gateway. With DNS rebinding, a page of another site resolves
 * its own name to the gateway's address and is the same origin to the browser. Only the host name reveals it.
 */

import { isIP } from "node:net";
import { ApiError } from "../errors.ts";

/** Maximum length of a DNS name. */
const NAME_CHARS_MAX = 253;

export type HostCheck = (host: string | null) => boolean;

/** IP addresses and `localhost` are always accepted: an attacker cannot register them. */
export function openHostCheck(publicUrl: string, allowedHosts: readonly string[]): HostCheck {
  const names = new Set([new URL(publicUrl).hostname, ...allowedHosts].map(normalize));
  return (host) => {
    if (host === null) return false;
    const name = normalize(withoutPort(host));
    return names.has(name) || name === "localhost" || name.endsWith(".localhost") || isAddress(name);
  };
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, "");
}

/** A host name may end with a dot and is case-insensitive. */
function normalize(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name) !== 0;
}

export function misdirectedRequest(host: string | null): ApiError {
  const problem =
    host === null
      ? "The request has no Host header"
      : `"${withoutPort(host).slice(0, NAME_CHARS_MAX)}" is not a host name of this gateway`;
  return new ApiError(
    "misdirected_request",
    `${problem}. Open the gateway at its own address. To allow this host name, set server.public_url (PUBLIC_URL) to it or add it to server.allowed_hosts in gateway.yaml, and restart the gateway.`,
  );
}
