/**
 * The session cookie. With the prefix `__Host-`, browsers send it only to this host, over https or locally.
 * Scripts cannot read it.
 */

import type { HeaderReader } from "../../net/wire/http-fields.ts";

const SESSION_COOKIE = "__Host-session";
const ATTRIBUTES = "Path=/; Secure; HttpOnly; SameSite=Lax";

export function sessionCookie(secret: string, maxAgeMs: number): string {
  return `${SESSION_COOKIE}=${secret}; ${ATTRIBUTES}; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
}

export function endedSessionCookie(): string {
  return `${SESSION_COOKIE}=; ${ATTRIBUTES}; Max-Age=0`;
}

/** Returns the cookie of the request, or null. */
export function presentedSession(headers: HeaderReader): string | null {
  for (const pair of headers.get("cookie")?.split(";") ?? []) {
    const [name, value = ""] = pair.split("=", 2);
    if (name?.trim() === SESSION_COOKIE) return value.trim();
  }
  return null;
}
