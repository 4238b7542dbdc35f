/**
 * The one cookie. `__Host-` makes browsers keep it for this host alone, over https or on the machine itself, and no
 * script can read it.
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

/** What the browser sent back; null without one. */
export function presentedSession(headers: HeaderReader): string | null {
  for (const pair of headers.get("cookie")?.split(";") ?? []) {
    const [name, value = ""] = pair.split("=", 2);
    if (name?.trim() === SESSION_COOKIE) return value.trim();
  }
  return null;
}
