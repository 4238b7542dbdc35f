/**
 * Decides whether a request names this gateway in its Host header. A page of another site whose name was made to
 * resolve to the gateway's address (DNS rebinding) is the same origin to its browser; only the name gives it away.
 */

import { isIP } from "node:net";
import { ApiError } from "../errors.ts";

/** Of a name in DNS. */
const NAME_CHARS_MAX = 253;

export type HostCheck = (host: string | null) => boolean;

/** IP addresses and `localhost` always pass: no attacker can register them. */
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

/** A name may be written with a dot at its end and in any case. */
function normalize(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

function isAddress(name: string): boolean {
  return isIP(name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name) !== 0;
}

export function misdirectedRequest(host: string | null): ApiError {
  const named =
    host === null
      ? "The request has no Host header"
      : `"${withoutPort(host).slice(0, NAME_CHARS_MAX)}" is not a name of this gateway`;
  return new ApiError(
    "misdirected_request",
    `${named}. Open the gateway at its own address. If people should reach it by this name, set server.public_url (PUBLIC_URL) to their address, or add the name to server.allowed_hosts in gateway.yaml, and restart the gateway.`,
  );
}
